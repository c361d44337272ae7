//! What a script's `onMessage` returned, as the frame that answers what it was given.

use serde_json::{Map, Value, json};

use super::answer_limit::ANSWERS_PER_CORRELATION_MAX;
use super::codes::ErrorCode;
use super::correspondence::correlation;
use super::triad::Vote;
use super::wire::Type;

/// What a handler made of a frame.
pub(crate) enum Outcome {
    /// What it returned.
    Returned(Value),
    /// What it threw.
    Threw(String),
}

/// The answer to `frame` in the name of `agent`, if one is due: a `message` to a `message`, a `response` to a
/// `request`, a `vote` to a `proposal`. To anything else nothing is answered, nor by a handler that returned nothing.
pub(crate) fn answer(agent: &str, frame: &Value, outcome: Outcome) -> Option<Map<String, Value>> {
    let kind = frame["type"].as_str().and_then(Type::of)?;
    match (kind, outcome) {
        (Type::Proposal, Outcome::Returned(value)) => vote(agent, frame, value),
        (Type::Message | Type::Request, _) if correlation(frame).is_none() => None,
        (Type::Message | Type::Request, Outcome::Threw(message)) => {
            Some(failure(agent, frame, ErrorCode::AgentError, &message))
        }
        (Type::Message, Outcome::Returned(Value::Null)) => None,
        (Type::Message, Outcome::Returned(value)) => {
            Some(reply(agent, frame, Type::Message, spoken(value, "assistant")))
        }
        (Type::Request, Outcome::Returned(value)) => {
            Some(reply(agent, frame, Type::Response, json!({"result": value})))
        }
        _ => None,
    }
}

/// A frame that answers another one.
pub(crate) fn reply(agent: &str, to: &Value, kind: Type, content: Value) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(id) = correlation(to) {
        metadata.insert("correlationId".to_owned(), json!(id));
    }
    metadata.insert("parentId".to_owned(), to["id"].clone());
    let mut fields = Map::new();
    fields.insert("type".to_owned(), json!(kind.name()));
    fields.insert("from".to_owned(), json!(agent));
    fields.insert("agent".to_owned(), to["from"].clone());
    if to["sessionId"].is_string() {
        fields.insert("sessionId".to_owned(), to["sessionId"].clone());
    }
    fields.insert("content".to_owned(), content);
    fields.insert("metadata".to_owned(), Value::Object(metadata));
    fields
}

/// An error in answer to a question.
pub(crate) fn failure(agent: &str, to: &Value, code: ErrorCode, message: &str) -> Map<String, Value> {
    let (number, name) = code.parts();
    let content = json!({"error": name, "message": message, "code": number});
    let mut fields = reply(agent, to, Type::Error, content);
    fields.insert("error".to_owned(), json!(name));
    fields
}

/// The same answer with an error in its place: it is one too many.
pub(crate) fn overrun(mut answer: Map<String, Value>) -> Map<String, Value> {
    let (number, name) = ErrorCode::AgentBusy.parts();
    let message = format!("more than {ANSWERS_PER_CORRELATION_MAX} answers under one correlation");
    answer.insert("type".to_owned(), json!(Type::Error.name()));
    answer.insert("content".to_owned(), json!({"error": name, "message": message, "code": number}));
    answer.insert("error".to_owned(), json!(name));
    answer
}

/// What is said, with the role in which it is: a string or an object is what is said, unless it has a role already.
pub(crate) fn spoken(value: Value, role: &str) -> Value {
    match value {
        Value::Object(fields)
            if fields.get("role").is_some_and(Value::is_string) && fields.contains_key("content") =>
        {
            Value::Object(fields)
        }
        said @ (Value::String(_) | Value::Object(_) | Value::Array(_)) => {
            json!({"role": role, "content": said})
        }
        other => json!({"role": role, "content": other.to_string()}),
    }
}

/// `"approve"`, or `{vote, reasoning, confidence}`. Anything else is no vote.
fn vote(agent: &str, proposal: &Value, value: Value) -> Option<Map<String, Value>> {
    let mut content = match value {
        Value::String(vote) => Map::from_iter([("vote".to_owned(), json!(vote))]),
        Value::Object(content) => content,
        _ => return None,
    };
    Vote::of(content.get("vote")?.as_str()?)?;
    let id = correlation(proposal)?;
    content.insert("proposalId".to_owned(), json!(id));
    let vote = json!({
        "type": Type::Vote.name(), "from": agent, "content": content, "metadata": {"correlationId": id}
    });
    match vote {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: &str) -> Value {
        json!({
            "type": kind, "id": "m1", "from": "client-1", "agent": "coder", "sessionId": "s",
            "content": {}, "metadata": {"correlationId": "c"}
        })
    }

    fn answered(kind: &str, value: Value) -> Option<Value> {
        answer("coder", &asked(kind), Outcome::Returned(value)).map(Value::Object)
    }

    #[test]
    fn a_message_is_answered_by_a_message_that_names_it() {
        let expected = json!({
            "type": "message", "from": "coder", "agent": "client-1", "sessionId": "s",
            "content": {"role": "assistant", "content": "done"},
            "metadata": {"correlationId": "c", "parentId": "m1"}
        });
        assert_eq!(answered("message", json!("done")), Some(expected));
        let with_role = json!({"role": "agent", "content": "x"});
        assert_eq!(answered("message", with_role.clone()).unwrap()["content"], with_role);
        assert_eq!(answered("message", json!(5)).unwrap()["content"]["content"], "5");
        assert_eq!(answered("message", json!({"a": 1})).unwrap()["content"]["content"], json!({"a": 1}));
        assert_eq!(answered("message", json!(null)), None);
    }

    #[test]
    fn a_request_is_answered_by_a_response_even_with_nothing() {
        let response = answered("request", json!(null)).unwrap();
        assert_eq!((&response["type"], &response["content"]), (&json!("response"), &json!({"result": null})));
    }

    #[test]
    fn a_proposal_is_answered_by_a_vote_or_not_at_all() {
        let vote = answered("proposal", json!("approve")).unwrap();
        assert_eq!(vote["content"], json!({"vote": "approve", "proposalId": "c"}));
        let reasoned = answered("proposal", json!({"vote": "reject", "reasoning": "r"})).unwrap();
        assert_eq!(reasoned["content"]["reasoning"], "r");
        for no_vote in [json!(null), json!("maybe"), json!({"vote": 1}), json!([])] {
            assert_eq!(answered("proposal", no_vote), None);
        }
    }

    #[test]
    fn what_was_thrown_is_the_agents_error() {
        let thrown = answer("coder", &asked("message"), Outcome::Threw("no".to_owned())).unwrap();
        assert_eq!(thrown["content"], json!({"error": "AGENT_ERROR", "message": "no", "code": 3004}));
        assert!(answer("coder", &asked("broadcast"), Outcome::Threw("no".to_owned())).is_none());
    }

    #[test]
    fn what_asks_for_nothing_gets_nothing() {
        for kind in ["broadcast", "decision", "event", "unknown"] {
            assert_eq!(answered(kind, json!("x")), None, "{kind}");
        }
        let told = json!({"type": "message", "content": {}});
        assert!(answer("coder", &told, Outcome::Returned(json!("x"))).is_none());
    }
}

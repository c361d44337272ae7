//! Builds reply frames from the results of a script's `onMessage`.

use serde_json::{Map, Value, json};

use super::codes::ErrorCode;
use super::pending_replies::correlation_id;
use super::reply_limit::REPLIES_PER_CORRELATION_MAX;
use super::triad::Vote;
use super::wire::FrameType;

/// The result of calling a script with a frame.
pub(crate) enum HandlerResult {
    Returned(Value),
    Threw(String),
}

/// Builds the reply of `agent` to `frame`: a `message` to a `message`, a `response` to a `request`,
/// a `vote` to a `proposal`. Other types get none, nor does a message whose handler returned null.
pub(crate) fn build_reply(agent: &str, frame: &Value, result: HandlerResult) -> Option<Map<String, Value>> {
    let kind = frame["type"].as_str().and_then(FrameType::from_name)?;
    match (kind, result) {
        (FrameType::Proposal, HandlerResult::Returned(value)) => vote_frame(agent, frame, value),
        (FrameType::Message | FrameType::Request, _) if correlation_id(frame).is_none() => None,
        (FrameType::Message | FrameType::Request, HandlerResult::Threw(message)) => {
            Some(error_reply(agent, frame, ErrorCode::AgentError, &message))
        }
        (FrameType::Message, HandlerResult::Returned(Value::Null)) => None,
        (FrameType::Message, HandlerResult::Returned(value)) => {
            Some(reply_frame(agent, frame, FrameType::Message, message_content(value, "assistant")))
        }
        (FrameType::Request, HandlerResult::Returned(value)) => {
            Some(reply_frame(agent, frame, FrameType::Response, json!({"result": value})))
        }
        _ => None,
    }
}

pub(crate) fn reply_frame(agent: &str, to: &Value, kind: FrameType, content: Value) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(id) = correlation_id(to) {
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

pub(crate) fn error_reply(agent: &str, to: &Value, code: ErrorCode, message: &str) -> Map<String, Value> {
    let (number, name) = code.parts();
    let content = json!({"error": name, "message": message, "code": number});
    let mut fields = reply_frame(agent, to, FrameType::Error, content);
    fields.insert("error".to_owned(), json!(name));
    fields
}

/// Turns a reply past the limit into an error.
pub(crate) fn to_limit_error(mut reply: Map<String, Value>) -> Map<String, Value> {
    let (number, name) = ErrorCode::AgentBusy.parts();
    let message = format!("more than {REPLIES_PER_CORRELATION_MAX} replies under one correlation");
    reply.insert("type".to_owned(), json!(FrameType::Error.name()));
    reply.insert("content".to_owned(), json!({"error": name, "message": message, "code": number}));
    reply.insert("error".to_owned(), json!(name));
    reply
}

/// Wraps a value as the content of a message with that role, unless it is `{role, content}`
/// already.
pub(crate) fn message_content(value: Value, role: &str) -> Value {
    match value {
        Value::Object(fields)
            if fields.get("role").is_some_and(Value::is_string) && fields.contains_key("content") =>
        {
            Value::Object(fields)
        }
        content @ (Value::String(_) | Value::Object(_) | Value::Array(_)) => {
            json!({"role": role, "content": content})
        }
        other => json!({"role": role, "content": other.to_string()}),
    }
}

/// Accepts `"approve"` and the like, or `{vote, reasoning, confidence}`; any other value is not a
/// vote.
fn vote_frame(agent: &str, proposal: &Value, value: Value) -> Option<Map<String, Value>> {
    let mut content = match value {
        Value::String(vote) => Map::from_iter([("vote".to_owned(), json!(vote))]),
        Value::Object(content) => content,
        _ => return None,
    };
    Vote::from_name(content.get("vote")?.as_str()?)?;
    let id = correlation_id(proposal)?;
    content.insert("proposalId".to_owned(), json!(id));
    let vote = json!({
        "type": FrameType::Vote.name(), "from": agent, "content": content, "metadata": {"correlationId": id}
    });
    match vote {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(kind: &str) -> Value {
        json!({
            "type": kind, "id": "m1", "from": "client-1", "agent": "coder", "sessionId": "s",
            "content": {}, "metadata": {"correlationId": "c"}
        })
    }

    fn reply_to(kind: &str, value: Value) -> Option<Value> {
        build_reply("coder", &incoming(kind), HandlerResult::Returned(value)).map(Value::Object)
    }

    #[test]
    fn message_is_replied_to_by_a_message_that_names_it() {
        let expected = json!({
            "type": "message", "from": "coder", "agent": "client-1", "sessionId": "s",
            "content": {"role": "assistant", "content": "done"},
            "metadata": {"correlationId": "c", "parentId": "m1"}
        });
        assert_eq!(reply_to("message", json!("done")), Some(expected));
        let with_role = json!({"role": "agent", "content": "x"});
        assert_eq!(reply_to("message", with_role.clone()).unwrap()["content"], with_role);
        assert_eq!(reply_to("message", json!(5)).unwrap()["content"]["content"], "5");
        assert_eq!(reply_to("message", json!({"a": 1})).unwrap()["content"]["content"], json!({"a": 1}));
        assert_eq!(reply_to("message", json!(null)), None);
    }

    #[test]
    fn request_is_replied_to_by_a_response_even_with_null() {
        let response = reply_to("request", json!(null)).unwrap();
        assert_eq!((&response["type"], &response["content"]), (&json!("response"), &json!({"result": null})));
    }

    #[test]
    fn proposal_is_replied_to_by_a_valid_vote_only() {
        let vote = reply_to("proposal", json!("approve")).unwrap();
        assert_eq!(vote["content"], json!({"vote": "approve", "proposalId": "c"}));
        let reasoned = reply_to("proposal", json!({"vote": "reject", "reasoning": "r"})).unwrap();
        assert_eq!(reasoned["content"]["reasoning"], "r");
        for invalid in [json!(null), json!("maybe"), json!({"vote": 1}), json!([])] {
            assert_eq!(reply_to("proposal", invalid), None);
        }
    }

    #[test]
    fn thrown_error_becomes_agent_error() {
        let thrown =
            build_reply("coder", &incoming("message"), HandlerResult::Threw("no".to_owned())).unwrap();
        assert_eq!(thrown["content"], json!({"error": "AGENT_ERROR", "message": "no", "code": 3004}));
        assert!(
            build_reply("coder", &incoming("broadcast"), HandlerResult::Threw("no".to_owned())).is_none()
        );
    }

    #[test]
    fn frame_that_expects_no_reply_gets_none() {
        for kind in ["broadcast", "decision", "event", "unknown"] {
            assert_eq!(reply_to(kind, json!("x")), None, "{kind}");
        }
        let plain = json!({"type": "message", "content": {}});
        assert!(build_reply("coder", &plain, HandlerResult::Returned(json!("x"))).is_none());
    }
}

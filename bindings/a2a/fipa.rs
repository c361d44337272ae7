//! Between this protocol's frames and the messages of FIPA ACL, after the table of the specification.
//!
//! What the table leaves open is an `inform` one way and a `message` the other, as in the specification's adapter.

use serde_json::{Map, Value, json};

use super::codes::Refusal;
use super::wire::{Type, text};

/// What an ACL message says of its content.
const LANGUAGE: &str = "json";

/// The vocabulary of the content.
const ONTOLOGY: &str = "heretek-v1";

/// Translates a frame.
pub(crate) fn to_fipa(frame: &Map<String, Value>) -> Result<Value, Refusal> {
    let name = text(frame, "type")?.ok_or_else(|| Refusal::missing("type"))?;
    let content = frame.get("content").cloned().unwrap_or(Value::Null);
    let mut acl = json!({
        "performative": performative(Type::of(&name), &content),
        "sender": frame.get("from"),
        "receiver": frame.get("agent"),
        "content": content,
        "language": LANGUAGE,
        "ontology": ONTOLOGY,
    });
    let metadata = |field: &str| frame.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
    let extras = [
        ("conversationId", metadata("threadId").or_else(|| frame.get("sessionId").cloned())),
        ("replyWith", metadata("correlationId")),
        ("inReplyTo", metadata("parentId")),
    ];
    for (field, value) in extras {
        if let Some(value) = value {
            acl[field] = value;
        }
    }
    Ok(acl)
}

fn performative(kind: Option<Type>, content: &Value) -> &'static str {
    match kind {
        Some(Type::Request) => "request",
        Some(Type::Proposal) => "propose",
        Some(Type::Response | Type::Vote) => match content["vote"].as_str() {
            Some("approve") => "agree",
            Some("reject") => "refuse",
            _ => "inform",
        },
        Some(Type::Decision) if content["result"] == "rejected" => "reject-proposal",
        Some(Type::Decision) => "accept-proposal",
        _ => "inform",
    }
}

/// Translates an ACL message. What its content lacks to be that of the frame's type is put there.
pub(crate) fn from_fipa(acl: &Map<String, Value>, now_ms: u64) -> Result<Value, Refusal> {
    let performative = text(acl, "performative")?.ok_or_else(|| Refusal::missing("performative"))?;
    let given = acl.get("content").cloned().unwrap_or(Value::Null);
    let (kind, content) = match performative.as_str() {
        "request" => (Type::Request, with(given, "service", "request")),
        "propose" => (Type::Proposal, with(given, "proposal", "propose")),
        "agree" => (Type::Response, ruled(given, "vote", "approve")),
        "refuse" => (Type::Response, ruled(given, "vote", "reject")),
        "accept-proposal" => (Type::Decision, ruled(given, "result", "approved")),
        "reject-proposal" => (Type::Decision, ruled(given, "result", "rejected")),
        _ => (Type::Message, spoken(given)),
    };
    let mut frame = json!({"type": kind.name(), "content": content, "timestamp": now_ms});
    for (theirs, ours) in [("sender", "from"), ("receiver", "agent")] {
        if let Some(name) = text(acl, theirs)? {
            frame[ours] = json!(name);
        }
    }
    let mut metadata = Map::new();
    for (theirs, ours) in
        [("conversationId", "threadId"), ("replyWith", "correlationId"), ("inReplyTo", "parentId")]
    {
        if let Some(id) = text(acl, theirs)? {
            metadata.insert(ours.to_owned(), json!(id));
        }
    }
    if !metadata.is_empty() {
        frame["metadata"] = Value::Object(metadata);
    }
    Ok(frame)
}

/// An object with a field that names the matter; anything else becomes that field.
fn with(content: Value, field: &str, otherwise: &str) -> Value {
    match content {
        Value::Object(mut content) => {
            content.entry(field).or_insert_with(|| json!(otherwise));
            Value::Object(content)
        }
        Value::String(matter) => json!({field: matter}),
        other => json!({field: otherwise, "content": other}),
    }
}

/// An object with the verdict that the performative stands for, and with a result, which answers must have.
fn ruled(content: Value, field: &str, verdict: &str) -> Value {
    let mut content = match content {
        Value::Object(content) => content,
        Value::Null => Map::new(),
        other => Map::from_iter([("reasoning".to_owned(), other)]),
    };
    content.insert(field.to_owned(), json!(verdict));
    content.entry("result").or_insert_with(|| json!(verdict));
    Value::Object(content)
}

/// What an agent says, as a message has it.
fn spoken(content: Value) -> Value {
    let is_spoken = content.get("role").is_some_and(Value::is_string) && content.get("content").is_some();
    match content {
        content if is_spoken => content,
        content @ (Value::String(_) | Value::Object(_) | Value::Array(_)) => {
            json!({"role": "agent", "content": content})
        }
        other => json!({"role": "agent", "content": other.to_string()}),
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::Body;
    use super::super::wire::Envelope;
    use super::*;
    use proptest::prelude::*;

    fn acl(frame: Value) -> Value {
        to_fipa(frame.as_object().unwrap()).unwrap()
    }

    fn frame(acl: Value) -> Value {
        from_fipa(acl.as_object().unwrap(), 7).unwrap()
    }

    #[test]
    fn the_table_holds_both_ways() {
        let table = [
            ("inform", "message", json!({"role": "agent", "content": "x"})),
            ("request", "request", json!({"service": "build"})),
            ("agree", "response", json!({"vote": "approve", "result": "fine"})),
            ("refuse", "response", json!({"vote": "reject", "result": null})),
            ("propose", "proposal", json!({"proposal": "p"})),
            ("accept-proposal", "decision", json!({"result": "approved"})),
            ("reject-proposal", "decision", json!({"result": "rejected"})),
        ];
        for (performative, kind, content) in table {
            let ours = json!({"type": kind, "from": "a", "agent": "b", "content": content});
            let theirs = acl(ours);
            assert_eq!(
                theirs,
                json!({
                    "performative": performative, "sender": "a", "receiver": "b", "content": content,
                    "language": "json", "ontology": "heretek-v1"
                })
            );
            let back = json!({"type": kind, "content": content, "timestamp": 7, "from": "a", "agent": "b"});
            assert_eq!(frame(theirs), back);
        }
    }

    #[test]
    fn what_the_table_leaves_open_has_a_default() {
        assert_eq!(acl(json!({"type": "event", "content": {}}))["performative"], "inform");
        assert_eq!(acl(json!({"type": "response", "content": {"result": 1}}))["performative"], "inform");
        assert_eq!(acl(json!({"type": "vote", "content": {"vote": "reject"}}))["performative"], "refuse");
        assert_eq!(frame(json!({"performative": "cfp", "content": 5}))["type"], "message");
    }

    #[test]
    fn threads_and_correlations_are_carried_over() {
        let metadata = json!({"threadId": "t", "correlationId": "c", "parentId": "p"});
        let theirs = acl(
            json!({"type": "message", "content": {"role": "user", "content": "x"}, "metadata": metadata}),
        );
        assert_eq!(theirs["conversationId"], "t");
        assert_eq!(frame(theirs)["metadata"], metadata);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(to_fipa(&Map::new()).is_err());
        assert!(from_fipa(&Map::new(), 0).is_err());
        let wrong = json!({"performative": "inform", "sender": 5});
        assert!(from_fipa(wrong.as_object().unwrap(), 0).is_err());
    }

    proptest! {
        /// Whatever a FIPA agent says, what comes out is a frame that a gateway takes, or one that only it may send.
        #[test]
        fn every_translation_is_a_proper_frame(which in 0..8_usize, form in 0..4_usize, word in "[a-z]{0,8}") {
            let performatives = [
                "inform", "request", "agree", "refuse", "propose", "accept-proposal", "reject-proposal", "cfp",
            ];
            let content = [json!(word), json!({"note": word}), json!(5), json!(null)][form].clone();
            let frame = frame(json!({"performative": performatives[which], "content": content}));
            let envelope = Envelope::decode(&frame.to_string()).unwrap();
            match Body::decode(&envelope) {
                Ok(_) => {}
                Err(refusal) => prop_assert_eq!(refusal.code.name(), "PERMISSION_DENIED"),
            }
        }
    }
}

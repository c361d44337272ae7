//! Translates frames to FIPA ACL messages and back, by the table of the specification.
//!
//! What the table leaves open becomes an `inform` or a `message`, as in the specification's
//! adapter.

use serde_json::{Map, Value, json};

use super::codes::GatewayError;
use super::replies::message_content;
use super::wire::{FrameType, optional_string};

/// The `language` of ACL messages.
const LANGUAGE: &str = "json";

/// The `ontology` of ACL messages.
const ONTOLOGY: &str = "heretek-v1";

pub(crate) fn to_fipa(frame: &Map<String, Value>) -> Result<Value, GatewayError> {
    let name = optional_string(frame, "type")?.ok_or_else(|| GatewayError::missing("type"))?;
    let content = frame.get("content").cloned().unwrap_or(Value::Null);
    let mut acl = json!({
        "performative": performative_of(FrameType::from_name(&name), &content),
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

fn performative_of(kind: Option<FrameType>, content: &Value) -> &'static str {
    match kind {
        Some(FrameType::Request) => "request",
        Some(FrameType::Proposal) => "propose",
        Some(FrameType::Response | FrameType::Vote) => match content["vote"].as_str() {
            Some("approve") => "agree",
            Some("reject") => "refuse",
            _ => "inform",
        },
        Some(FrameType::Decision) if content["result"] == "rejected" => "reject-proposal",
        Some(FrameType::Decision) => "accept-proposal",
        _ => "inform",
    }
}

/// Translates an ACL message, and adds the fields that the content of the frame type requires.
pub(crate) fn from_fipa(acl: &Map<String, Value>, now_ms: u64) -> Result<Value, GatewayError> {
    let performative =
        optional_string(acl, "performative")?.ok_or_else(|| GatewayError::missing("performative"))?;
    let given = acl.get("content").cloned().unwrap_or(Value::Null);
    let (kind, content) = match performative.as_str() {
        "request" => (FrameType::Request, with_field(given, "service", "request")),
        "propose" => (FrameType::Proposal, with_field(given, "proposal", "propose")),
        "agree" => (FrameType::Response, with_verdict(given, "vote", "approve")),
        "refuse" => (FrameType::Response, with_verdict(given, "vote", "reject")),
        "accept-proposal" => (FrameType::Decision, with_verdict(given, "result", "approved")),
        "reject-proposal" => (FrameType::Decision, with_verdict(given, "result", "rejected")),
        _ => (FrameType::Message, message_content(given, "agent")),
    };
    let mut frame = json!({"type": kind.name(), "content": content, "timestamp": now_ms});
    for (theirs, ours) in [("sender", "from"), ("receiver", "agent")] {
        if let Some(name) = optional_string(acl, theirs)? {
            frame[ours] = json!(name);
        }
    }
    let mut metadata = Map::new();
    for (theirs, ours) in
        [("conversationId", "threadId"), ("replyWith", "correlationId"), ("inReplyTo", "parentId")]
    {
        if let Some(id) = optional_string(acl, theirs)? {
            metadata.insert(ours.to_owned(), json!(id));
        }
    }
    if !metadata.is_empty() {
        frame["metadata"] = Value::Object(metadata);
    }
    Ok(frame)
}

/// Ensures an object with that field: a string becomes the field, other values get `default` in it.
fn with_field(content: Value, field: &str, default: &str) -> Value {
    match content {
        Value::Object(mut content) => {
            content.entry(field).or_insert_with(|| json!(default));
            Value::Object(content)
        }
        Value::String(text) => json!({field: text}),
        other => json!({field: default, "content": other}),
    }
}

/// Ensures an object with the verdict of the performative, and with the `result` that replies
/// require.
fn with_verdict(content: Value, field: &str, verdict: &str) -> Value {
    let mut content = match content {
        Value::Object(content) => content,
        Value::Null => Map::new(),
        other => Map::from_iter([("reasoning".to_owned(), other)]),
    };
    content.insert(field.to_owned(), json!(verdict));
    content.entry("result").or_insert_with(|| json!(verdict));
    Value::Object(content)
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
    fn table_is_followed_in_both_directions() {
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
    fn untabled_types_have_defaults() {
        assert_eq!(acl(json!({"type": "event", "content": {}}))["performative"], "inform");
        assert_eq!(acl(json!({"type": "response", "content": {"result": 1}}))["performative"], "inform");
        assert_eq!(acl(json!({"type": "vote", "content": {"vote": "reject"}}))["performative"], "refuse");
        assert_eq!(frame(json!({"performative": "cfp", "content": 5}))["type"], "message");
    }

    #[test]
    fn threads_and_correlations_are_preserved() {
        let metadata = json!({"threadId": "t", "correlationId": "c", "parentId": "p"});
        let theirs = acl(
            json!({"type": "message", "content": {"role": "user", "content": "x"}, "metadata": metadata}),
        );
        assert_eq!(theirs["conversationId"], "t");
        assert_eq!(frame(theirs)["metadata"], metadata);
    }

    #[test]
    fn invalid_messages_are_rejected() {
        assert!(to_fipa(&Map::new()).is_err());
        assert!(from_fipa(&Map::new(), 0).is_err());
        let invalid = json!({"performative": "inform", "sender": 5});
        assert!(from_fipa(invalid.as_object().unwrap(), 0).is_err());
    }

    proptest! {
        /// Every translation is a frame that a gateway accepts, or of a type that only a gateway
        /// may send.
        #[test]
        fn every_translation_is_a_valid_frame(which in 0..8_usize, form in 0..4_usize, word in "[a-z]{0,8}") {
            let performatives = [
                "inform", "request", "agree", "refuse", "propose", "accept-proposal", "reject-proposal", "cfp",
            ];
            let content = [json!(word), json!({"note": word}), json!(5), json!(null)][form].clone();
            let frame = frame(json!({"performative": performatives[which], "content": content}));
            let envelope = Envelope::decode(&frame.to_string()).unwrap();
            match Body::decode(&envelope) {
                Ok(_) => {}
                Err(error) => prop_assert_eq!(error.code.name(), "PERMISSION_DENIED"),
            }
        }
    }
}

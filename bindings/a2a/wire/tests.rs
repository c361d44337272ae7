//! Decoding envelopes and building frames.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn error_name(frame: Value) -> &'static str {
    Envelope::decode(&frame.to_string()).unwrap_err().error.code.name()
}

#[test]
fn example_of_the_specification_is_decoded() {
    let frame = json!({
        "id": "msg-550e8400-e29b-41d4-a716-446655440000",
        "type": "message",
        "from": "steward",
        "agent": "alpha",
        "sessionId": "sess-12345",
        "content": {"role": "agent", "content": "Proposal received: Implement feature X"},
        "timestamp": 1_711_843_200_000_u64,
        "metadata": {
            "priority": "high", "requiresResponse": true, "threadId": "thread-abc",
            "parentId": "msg-0", "ttl": 1.5, "correlationId": "corr-xyz", "queue": true
        }
    });
    let envelope = Envelope::decode(&frame.to_string()).unwrap();
    assert_eq!(envelope.kind, FrameType::Message);
    assert_eq!(envelope.agent.as_deref(), Some("alpha"));
    assert_eq!(envelope.timestamp_ms, Some(1_711_843_200_000));
    assert_eq!(
        envelope.metadata,
        Metadata {
            priority: Priority::High,
            requires_response: true,
            parent_id: Some("msg-0".to_owned()),
            correlation_id: Some("corr-xyz".to_owned()),
            ttl_ms: Some(1500),
            queue: true,
        }
    );
    assert_eq!(Value::Object(envelope.fields), frame);
}

#[test]
fn types_are_found_by_name_and_others_are_unknown() {
    for kind in FrameType::ALL {
        assert_eq!(FrameType::from_name(kind.name()), Some(kind));
    }
    for name in ["", "Message", "constructor", "__proto__", "welcome", "health"] {
        assert_eq!(FrameType::from_name(name), None, "{name}");
    }
}

#[test]
fn text_that_is_not_an_object_is_rejected_by_kind() {
    let code = |text: &str| Envelope::decode(text).unwrap_err().error.code.name();
    for text in ["", "{\"type\":", "nul", "{'type':1}", "{} {}"] {
        assert_eq!(code(text), "INVALID_JSON", "{text}");
    }
    for text in ["null", "[]", "42", "\"x\"", "true"] {
        assert_eq!(code(text), "INVALID_TYPE", "{text}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(code(&deep), "INVALID_JSON");
}

#[test]
fn field_of_wrong_type_is_rejected() {
    assert_eq!(error_name(json!({"content": {}})), "MISSING_FIELD");
    let invalid = [
        ("type", json!(1)),
        ("id", json!(1)),
        ("agent", json!({})),
        ("from", json!([])),
        ("sessionId", json!(false)),
        ("timestamp", json!("soon")),
        ("timestamp", json!(-5)),
        ("metadata", json!("x")),
        ("metadata", json!({"correlationId": 1})),
        ("metadata", json!({"ttl": "1"})),
        ("metadata", json!({"requiresResponse": "yes"})),
        ("metadata", json!({"priority": 1})),
        ("metadata", json!({"threadId": 1})),
    ];
    for (field, value) in invalid {
        let mut frame = json!({"type": "ping"});
        frame[field] = value;
        assert_eq!(error_name(frame.clone()), "INVALID_TYPE", "{frame}");
    }
    assert_eq!(error_name(json!({"type": "ping", "metadata": {"priority": "urgent"}})), "INVALID_CONTENT");
    assert_eq!(error_name(json!({"type": "ping", "metadata": {"ttl": -1}})), "INVALID_CONTENT");
}

#[test]
fn id_past_the_limit_is_rejected() {
    let frame = |bytes| json!({"type": "ping", "metadata": {"correlationId": "x".repeat(bytes)}});
    assert!(Envelope::decode(&frame(ID_BYTES_MAX).to_string()).is_ok());
    assert_eq!(error_name(frame(ID_BYTES_MAX + 1)), "INVALID_CONTENT");
}

#[test]
fn unknown_type_error_has_its_name_and_correlation() {
    let text = json!({"type": "nonsense", "metadata": {"correlationId": "c"}}).to_string();
    let failure = Envelope::decode(&text).unwrap_err();
    assert_eq!(failure.error.message, "Unknown message type: nonsense");
    assert_eq!(failure.correlation_id.as_deref(), Some("c"));
}

#[test]
fn error_frame_has_name_and_correlation_in_both_places() {
    let error = GatewayError::new(ErrorCode::AgentNotFound, "Agent not found: x");
    let frame = error_frame(&error, Some("c"), 5);
    assert_eq!(
        frame,
        json!({
            "type": "error", "from": "gateway", "timestamp": 5,
            "content": {"error": "AGENT_NOT_FOUND", "message": "Agent not found: x", "code": 3001},
            "metadata": {"correlationId": "c"}, "correlationId": "c", "error": "AGENT_NOT_FOUND"
        })
    );
}

#[test]
fn only_safe_agent_names_are_accepted() {
    let longest = "a".repeat(AGENT_BYTES_MAX);
    for name in ["steward", "a", "Agent-7_b.c", &longest] {
        assert!(is_agent_name(name), "{name}");
    }
    let too_long = "a".repeat(AGENT_BYTES_MAX + 1);
    for name in
        ["", ".", "..", ".hidden", "-x", "a/b", "../etc", "a\\b", "a b", "ä", "gateway", "a\0", &too_long]
    {
        assert!(!is_agent_name(name), "{name}");
    }
}

proptest! {
    #[test]
    fn decode_never_panics(text in ".{0,200}") {
        let _ = Envelope::decode(&text);
    }

    #[test]
    fn decoded_frame_keeps_all_fields(
        id in "[a-z0-9-]{1,20}", extra in "[a-z]{1,8}", number in any::<i32>(), kind in 0..FrameType::ALL.len(),
    ) {
        let frame = json!({"type": FrameType::ALL[kind].name(), "id": id, format!("x{extra}"): number});
        let envelope = Envelope::decode(&frame.to_string()).unwrap();
        prop_assert_eq!(Value::Object(envelope.fields), frame);
    }
}

//! Decoding the content of each frame type.

use proptest::prelude::*;
use serde_json::json;

use super::session_request::parse_age_ms;
use super::*;

fn decode(frame: &Value) -> Result<Body, &'static str> {
    let envelope = Envelope::decode(&frame.to_string()).map_err(|failure| failure.error.code.name())?;
    Body::decode(&envelope).map_err(|error| error.code.name())
}

fn decode_content(kind: &str, content: Value) -> Result<Body, &'static str> {
    decode(&json!({"type": kind, "content": content}))
}

#[test]
fn missing_required_fields_are_rejected() {
    let incomplete = [
        ("status", json!({})),
        ("error", json!({})),
        ("event", json!({})),
        ("handshake", json!({})),
        ("discovery", json!({})),
        ("workspace", json!({})),
        ("subscribe", json!({})),
        ("unsubscribe", json!({})),
        ("auth", json!({})),
        ("disconnect", json!({})),
        ("proposal", json!({"reasoning": "r"})),
        ("vote", json!({"vote": "approve"})),
        ("vote", json!({"proposalId": "p"})),
        ("request", json!({})),
        ("request", json!({"service": "session"})),
        ("request", json!({"service": "session", "action": "get", "agent": "a"})),
        ("request", json!({"service": "session", "action": "create"})),
        ("request", json!({"service": "session", "action": "archive", "agent": "a"})),
        ("response", json!({})),
        ("broadcast", json!({})),
    ];
    for (kind, content) in incomplete {
        assert_eq!(decode_content(kind, content.clone()), Err("MISSING_FIELD"), "{kind} {content}");
    }
    for kind in FrameType::ALL {
        let bare = decode(&json!({"type": kind.name()}));
        match kind {
            FrameType::Ping | FrameType::Pong => assert!(bare.is_ok()),
            FrameType::Decision | FrameType::AuthResponse => assert_eq!(bare, Err("PERMISSION_DENIED")),
            _ => assert_eq!(bare, Err("MISSING_FIELD"), "{kind:?}"),
        }
    }
}

#[test]
fn fields_of_wrong_type_are_rejected() {
    let invalid = [
        ("message", json!("hello")),
        ("message", json!(null)),
        ("status", json!({"status": 1})),
        ("handshake", json!({"action": 1})),
        ("handshake", json!({"action": "advertise", "capabilities": 1})),
        ("handshake", json!({"action": "advertise", "capabilities": {"version": 1}})),
        ("subscribe", json!({"channel": {}})),
        ("subscribe", json!({"channel": "agent:status", "agents": "alpha"})),
        ("subscribe", json!({"channel": "agent:status", "agents": [1]})),
        ("auth", json!({"token": 1})),
        ("proposal", json!({"proposal": 1})),
        ("proposal", json!({"proposal": "p", "deadline": "never"})),
        ("vote", json!({"proposalId": 1, "vote": "approve"})),
        ("request", json!({"service": 1})),
    ];
    for (kind, content) in invalid {
        assert_eq!(decode_content(kind, content.clone()), Err("INVALID_TYPE"), "{kind} {content}");
    }
}

#[test]
fn invalid_values_are_rejected() {
    let invalid = [
        ("message", json!({"role": "user"})),
        ("message", json!({"content": "x"})),
        ("message", json!({"role": "king", "content": "x"})),
        ("message", json!({"role": "user", "content": 5})),
        ("message", json!({"role": "user", "content": null})),
        ("status", json!({"status": "asleep"})),
        ("handshake", json!({"action": "acknowledge"})),
        ("discovery", json!({"action": "nothing"})),
        ("workspace", json!({"action": "nothing"})),
        ("subscribe", json!({"channel": "nope"})),
        ("subscribe", json!({"channel": "agent:status", "agents": ["a".repeat(AGENT_BYTES_MAX + 1)]})),
        ("disconnect", json!({"reason": "bored"})),
        ("vote", json!({"proposalId": "p", "vote": "maybe"})),
        ("request", json!({"service": "session", "action": "burn", "agent": "a"})),
        ("request", json!({"service": "session", "action": "archive", "agent": "a", "olderThan": "7x"})),
        ("request", json!({"service": "session", "action": "archive", "agent": "a", "olderThan": "d"})),
    ];
    for (kind, content) in invalid {
        assert_eq!(decode_content(kind, content.clone()), Err("INVALID_CONTENT"), "{kind} {content}");
    }
}

#[test]
fn versions_with_other_major_number_are_rejected() {
    let shake = |version: &str| {
        decode_content("handshake", json!({"action": "advertise", "capabilities": {"version": version}}))
    };
    for version in ["1.0.0", "1.9", "1"] {
        assert_eq!(shake(version), Ok(Body::Advertise), "{version}");
    }
    for version in ["2.0.0", "0.9", "10", "", "one"] {
        assert_eq!(shake(version), Err("PROTOCOL_ERROR"), "{version}");
    }
}

#[test]
fn session_request_reads_content_or_envelope() {
    let get = SessionRequest::Get { agent: "a".to_owned(), session_id: "s".to_owned() };
    let in_content = json!({"type": "request", "content": {"service": "session", "action": "get", "agent": "a", "sessionId": "s"}});
    let in_envelope = json!({"type": "request", "agent": "a", "sessionId": "s", "content": {"service": "session", "action": "get"}});
    assert_eq!(decode(&in_content), Ok(Body::Session(get.clone())));
    assert_eq!(decode(&in_envelope), Ok(Body::Session(get)));
}

#[test]
fn ages_are_parsed_in_every_unit() {
    let ages = [
        (json!("7d"), 7 * 86_400_000),
        (json!("12h"), 12 * 3_600_000),
        (json!("30m"), 1_800_000),
        (json!("45s"), 45_000),
        (json!(1500), 1500),
    ];
    for (age, expected) in ages {
        assert_eq!(parse_age_ms(&age), Ok(expected), "{age}");
    }
    assert!(parse_age_ms(&json!("99999999999999999999d")).is_err());
    assert!(parse_age_ms(&json!(format!("{}d", u64::MAX))).is_err());
}

#[test]
fn subscription_past_the_agent_limit_is_rejected() {
    let subscribe =
        |count| decode_content("subscribe", json!({"channel": "agent:status", "agents": vec!["a"; count]}));
    assert!(subscribe(AGENTS_SUBSCRIBED_MAX).is_ok());
    assert_eq!(subscribe(AGENTS_SUBSCRIBED_MAX + 1), Err("INVALID_CONTENT"));
}

#[test]
fn error_name_is_accepted_in_both_places() {
    assert_eq!(decode_content("error", json!({"error": "X"})), Ok(Body::Error));
    assert_eq!(decode(&json!({"type": "error", "error": "X", "content": {}})), Ok(Body::Error));
}

proptest! {
    #[test]
    fn decode_never_panics(kind in 0..FrameType::ALL.len(), key in "[a-zA-Z]{1,12}", text in ".{0,20}") {
        let values = [json!(text), json!({key.clone(): text}), json!([text]), json!(1), json!(null)];
        for value in values {
            let _ = decode_content(FrameType::ALL[kind].name(), json!({key.clone(): value}));
            let _ = decode_content(FrameType::ALL[kind].name(), value);
        }
    }
}

//! What the content of each type must have.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn decoded(frame: &Value) -> Result<Body, &'static str> {
    let envelope =
        Envelope::decode(&frame.to_string()).map_err(|unreadable| unreadable.refusal.code.name())?;
    Body::decode(&envelope).map_err(|refusal| refusal.code.name())
}

fn of(kind: &str, content: Value) -> Result<Body, &'static str> {
    decoded(&json!({"type": kind, "content": content}))
}

#[test]
fn what_a_type_needs_must_be_there() {
    let needs = [
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
    for (kind, content) in needs {
        assert_eq!(of(kind, content.clone()), Err("MISSING_FIELD"), "{kind} {content}");
    }
    for kind in Type::ALL {
        let bare = decoded(&json!({"type": kind.name()}));
        match kind {
            Type::Ping | Type::Pong => assert!(bare.is_ok()),
            Type::Decision | Type::AuthResponse => assert_eq!(bare, Err("PERMISSION_DENIED")),
            _ => assert_eq!(bare, Err("MISSING_FIELD"), "{kind:?}"),
        }
    }
}

#[test]
fn what_is_there_must_have_its_type() {
    let wrong = [
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
    for (kind, content) in wrong {
        assert_eq!(of(kind, content.clone()), Err("INVALID_TYPE"), "{kind} {content}");
    }
}

#[test]
fn a_value_that_means_nothing_is_refused() {
    let wrong = [
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
    for (kind, content) in wrong {
        assert_eq!(of(kind, content.clone()), Err("INVALID_CONTENT"), "{kind} {content}");
    }
}

#[test]
fn versions_are_told_apart_by_their_first_number() {
    let shake =
        |version: &str| of("handshake", json!({"action": "advertise", "capabilities": {"version": version}}));
    for version in ["1.0.0", "1.9", "1"] {
        assert_eq!(shake(version), Ok(Body::Advertise), "{version}");
    }
    for version in ["2.0.0", "0.9", "10", "", "one"] {
        assert_eq!(shake(version), Err("PROTOCOL_ERROR"), "{version}");
    }
}

#[test]
fn the_session_service_takes_its_arguments_from_the_content_or_the_envelope() {
    let get = SessionRequest::Get { agent: "a".to_owned(), session_id: "s".to_owned() };
    let inside = json!({"type": "request", "content": {"service": "session", "action": "get", "agent": "a", "sessionId": "s"}});
    let around = json!({"type": "request", "agent": "a", "sessionId": "s", "content": {"service": "session", "action": "get"}});
    assert_eq!(decoded(&inside), Ok(Body::Session(get.clone())));
    assert_eq!(decoded(&around), Ok(Body::Session(get)));
}

#[test]
fn ages_are_read_in_every_unit() {
    let ages = [
        (json!("7d"), 7 * 86_400_000),
        (json!("12h"), 12 * 3_600_000),
        (json!("30m"), 1_800_000),
        (json!("45s"), 45_000),
        (json!(1500), 1500),
    ];
    for (age, expected) in ages {
        assert_eq!(age_ms(&age), Ok(expected), "{age}");
    }
    assert!(age_ms(&json!("99999999999999999999d")).is_err());
    assert!(age_ms(&json!(format!("{}d", u64::MAX))).is_err());
}

#[test]
fn a_subscription_at_its_limit_is_taken_and_a_longer_one_is_not() {
    let subscribe = |count| of("subscribe", json!({"channel": "agent:status", "agents": vec!["a"; count]}));
    assert!(subscribe(AGENTS_SUBSCRIBED_MAX).is_ok());
    assert_eq!(subscribe(AGENTS_SUBSCRIBED_MAX + 1), Err("INVALID_CONTENT"));
}

#[test]
fn both_places_of_an_errors_name_will_do() {
    assert_eq!(of("error", json!({"error": "X"})), Ok(Body::Error));
    assert_eq!(decoded(&json!({"type": "error", "error": "X", "content": {}})), Ok(Body::Error));
}

proptest! {
    #[test]
    fn every_type_survives_every_content(kind in 0..Type::ALL.len(), key in "[a-zA-Z]{1,12}", text in ".{0,20}") {
        let values = [json!(text), json!({key.clone(): text}), json!([text]), json!(1), json!(null)];
        for value in values {
            let _ = of(Type::ALL[kind].name(), json!({key.clone(): value}));
            let _ = of(Type::ALL[kind].name(), value);
        }
    }
}

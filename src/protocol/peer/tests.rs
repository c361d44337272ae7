//! What a connection answers, passes on and ignores.

use super::*;
use crate::protocol::methods::{Payload, Target};
use serde_json::json;

#[test]
fn calls_to_a_client_that_sends_nothing_more_are_given_up_once() {
    let mut peer = live();
    peer.on_event(ToClient::Call {
        call: 7,
        target: Target::Binding("notify".into()),
        payload: Payload::Input(Value::Null),
    });
    let given_up = peer.give_up_calls();
    assert!(matches!(
        given_up.as_slice(),
        [FromClient::Answer { call: 7, outcome: Err(error) }] if error.is(Kind::PeerGone)
    ));
    assert!(peer.give_up_calls().is_empty());
}

fn live() -> Peer {
    let mut peer = Peer::new(4);
    let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":1,"method":"handshake","params":{"protocol":"0.1"}}"#);
    let Some(Effect::Handshake { request, .. }) = effect else { panic!("no handshake") };
    peer.on_handshake(&request, Ok(&json!({})));
    peer
}

fn sent(effect: Option<Effect>) -> Value {
    match effect {
        Some(Effect::Send(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("nothing was sent: {other:?}"),
    }
}

fn error_of(effect: Option<Effect>) -> (Value, Value) {
    let answer = sent(effect);
    (answer["id"].clone(), answer["error"]["data"]["kind"].clone())
}

#[test]
fn anything_before_the_handshake_is_not_ready() {
    let mut peer = Peer::new(4);
    let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":1,"method":"eval","params":{"code":"1"}}"#);
    assert_eq!(error_of(effect), (json!(1), json!("NotReady")));
}

#[test]
fn a_refused_handshake_may_be_tried_again_and_a_second_one_not() {
    let mut peer = Peer::new(4);
    let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":1,"method":"handshake","params":{"protocol":"9"}}"#);
    let answer = sent(effect);
    assert_eq!(answer["error"]["data"], json!({"kind": "UnsupportedProtocol", "supported": ["0.1"]}));
    let mut peer = live();
    let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":2,"method":"handshake","params":{"protocol":"0.1"}}"#);
    assert_eq!(error_of(effect), (json!(2), json!("InvalidRequest")));
}

#[test]
fn an_id_in_flight_is_refused_without_id() {
    let mut peer = live();
    let eval = r#"{"jsonrpc":"2.0","id":5,"method":"eval","params":{"code":"1"}}"#;
    assert!(matches!(peer.on_text(eval), Some(Effect::Command(FromClient::Eval { .. }))));
    assert_eq!(error_of(peer.on_text(eval)), (Value::Null, json!("InvalidRequest")));
    let outcome = Ok(serde_json::value::to_raw_value(&json!({"value": 1})).unwrap());
    let answer = sent(peer.on_event(ToClient::Answered { request: Id::from(5), outcome }));
    assert_eq!(answer["result"], json!({"value": 1}));
    assert!(matches!(peer.on_text(eval), Some(Effect::Command(FromClient::Eval { .. }))));
}

#[test]
fn calls_to_the_client_have_ids_of_their_own() {
    let mut peer = live();
    let target = Target::Binding("notify".into());
    let call = |call| ToClient::Call { call, target: target.clone(), payload: Payload::Input(json!(1)) };
    assert_eq!(sent(peer.on_event(call(70)))["id"], json!(1));
    assert_eq!(sent(peer.on_event(call(71)))["id"], json!(2));
    let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":2,"result":{"value":null}}"#);
    assert!(matches!(effect, Some(Effect::Command(FromClient::Answer { call: 71, outcome: Ok(_) }))));
    peer.on_event(ToClient::GiveUp { call: 70 });
    let late = peer.on_text(r#"{"jsonrpc":"2.0","id":1,"result":{"value":null}}"#);
    assert!(matches!(late, Some(Effect::Ignored("stale"))));
    let twice = peer.on_text(r#"{"jsonrpc":"2.0","id":2,"result":{"value":null}}"#);
    assert!(matches!(twice, Some(Effect::Ignored("duplicate"))));
    let never = peer.on_text(r#"{"jsonrpc":"2.0","id":9,"result":{"value":null}}"#);
    assert!(matches!(never, Some(Effect::Ignored("unknown"))));
}

#[test]
fn a_call_given_up_is_cancelled_at_a_client_that_asks_for_it() {
    for (notifications, is_sent) in
        [(r#"["cancel_invoke","other"]"#, true), (r#"["other"]"#, false), ("[]", false)]
    {
        let mut peer = Peer::new(4);
        let handshake = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"handshake","params":{{"protocol":"0.1","notifications":{notifications}}}}}"#
        );
        let Some(Effect::Handshake { request, .. }) = peer.on_text(&handshake) else {
            panic!("no handshake")
        };
        peer.on_handshake(&request, Ok(&json!({})));
        let (target, payload) = (Target::Binding("notify".into()), Payload::Input(Value::Null));
        peer.on_event(ToClient::Call { call: 70, target, payload });
        let effect = peer.on_event(ToClient::GiveUp { call: 70 });
        assert_eq!(effect.is_some(), is_sent, "{notifications}");
        if is_sent {
            let expected = json!({"jsonrpc": "2.0", "method": "cancel_invoke", "params": {"id": 1}});
            assert_eq!(sent(effect), expected);
        }
        assert!(peer.on_event(ToClient::GiveUp { call: 70 }).is_none());
    }
}

#[test]
fn notifications_other_than_release_ref_are_ignored() {
    let mut peer = live();
    let effect = peer.on_text(r#"{"jsonrpc":"2.0","method":"eval","params":{"code":"1"}}"#);
    assert!(matches!(effect, Some(Effect::Ignored("notification"))));
    let effect = peer.on_text(r#"{"jsonrpc":"2.0","method":"release_ref","params":{"ref":"f1"}}"#);
    assert!(matches!(effect, Some(Effect::Command(FromClient::Release { count: 1, .. }))));
}

#[test]
fn refused_request_is_answered_once_and_its_id_is_free() {
    let mut peer = live();
    let eval = r#"{"jsonrpc":"2.0","id":5,"method":"eval","params":{"code":"1"}}"#;
    assert!(matches!(peer.on_text(eval), Some(Effect::Command(FromClient::Eval { .. }))));
    let error = ErrorObject::new(Kind::Busy, "too much");
    let answer = peer.refuse(&Id::from(5), &error).map(Effect::Send);
    assert_eq!(error_of(answer), (json!(5), json!("Busy")));
    assert!(peer.is_idle());
    assert_eq!(peer.refuse(&Id::from(5), &error), None);
    assert!(matches!(peer.on_text(eval), Some(Effect::Command(FromClient::Eval { .. }))));
}

#[test]
fn requests_past_the_limit_are_busy() {
    let mut peer = live();
    for id in 0..4 {
        let eval = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eval","params":{{"code":"1"}}}}"#);
        assert!(matches!(peer.on_text(&eval), Some(Effect::Command(_))));
    }
    let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":9,"method":"eval","params":{"code":"1"}}"#);
    assert_eq!(error_of(effect), (json!(9), json!("Busy")));
}

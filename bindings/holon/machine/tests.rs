//! Each reaction of the machine, and that every request completes exactly once.

use super::*;
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_millis(100);

fn config(role: Role) -> ConnectionConfig {
    let heartbeat = HeartbeatConfig { interval: Duration::from_secs(15), timeout: Duration::from_secs(5) };
    ConnectionConfig { role, pending_max: 2, requests_max: 2, heartbeat }
}

fn machine(role: Role) -> (Machine<u32>, Instant) {
    let now = Instant::now();
    let mut machine = Machine::new(config(role));
    machine.on_open(now);
    (machine, now)
}

fn send_request(machine: &mut Machine<u32>, waiter: u32, now: Instant) -> Effect<u32> {
    machine.send_request("a.B/C", &json!({"k": 1}), TIMEOUT, waiter, now)
}

fn failure_code(effect: &Effect<u32>) -> Option<(u32, i64)> {
    match effect {
        Effect::Complete(waiter, Err(status)) => Some((*waiter, status.code)),
        _ => None,
    }
}

#[test]
fn ids_have_the_format_of_the_role() {
    let (mut endpoint, now) = machine(Role::Endpoint);
    let (mut client, _) = machine(Role::Client);
    let sent = |id: &str| Effect::Send(wire::encode_request(id, "a.B/C", &json!({"k": 1})));
    assert_eq!(send_request(&mut endpoint, 0, now), sent("s1"));
    assert_eq!(send_request(&mut endpoint, 0, now), sent("s2"));
    assert_eq!(send_request(&mut client, 0, now), sent("1"));
}

#[test]
fn second_response_is_a_duplicate() {
    let (mut machine, now) = machine(Role::Endpoint);
    send_request(&mut machine, 7, now);
    let response = r#"{"id":"s1","result":{"ok":true}}"#;
    assert_eq!(machine.on_text(response, now), [Effect::Complete(7, Ok(json!({"ok": true})))]);
    assert_eq!(machine.on_text(response, now), [Effect::Warn(Warning::DuplicateResponse)]);
}

#[test]
fn response_after_timeout_is_stale() {
    let (mut machine, now) = machine(Role::Client);
    send_request(&mut machine, 7, now);
    assert_eq!(machine.wake_at(), Some(now + TIMEOUT));
    let effects = machine.on_wake(now + TIMEOUT);
    assert_eq!(effects.iter().filter_map(failure_code).collect::<Vec<_>>(), [(7, wire::DEADLINE_EXCEEDED)]);
    assert_eq!(machine.on_text(r#"{"id":"1","result":1}"#, now), [Effect::Warn(Warning::StaleResponse)]);
}

#[test]
fn response_with_unused_id_is_unknown() {
    let (mut machine, now) = machine(Role::Client);
    send_request(&mut machine, 7, now);
    for id in ["2", "01", "+1", "1 ", "s1", "h1", "x"] {
        let text = json!({"id": id, "result": 1}).to_string();
        assert_eq!(machine.on_text(&text, now), [Effect::Warn(Warning::UnknownResponse)], "{id}");
    }
}

#[test]
fn id_only_frame_is_a_null_result_for_own_ids_only() {
    let (mut machine, now) = machine(Role::Endpoint);
    send_request(&mut machine, 7, now);
    assert_eq!(machine.on_text(r#"{"id":"s1"}"#, now), [Effect::Complete(7, Ok(Value::Null))]);
    let effects = machine.on_text(r#"{"id":"zz"}"#, now);
    assert!(matches!(&effects[..], [Effect::Warn(Warning::InvalidEnvelope), Effect::Send(_)]), "{effects:?}");
}

#[test]
fn invalid_frame_gets_a_response_or_closes_by_role() {
    let (mut endpoint, now) = machine(Role::Endpoint);
    let (mut client, _) = machine(Role::Client);
    let invalid = r#"{"id":"9","method":"m","extra":1}"#;
    let rejection = wire::encode_response("9", &Err(Status::new(wire::INVALID_ARGUMENT, "unknown field")));
    let warning = || Effect::Warn(Warning::InvalidEnvelope);
    assert_eq!(endpoint.on_text(invalid, now), [warning(), Effect::Send(rejection)]);
    assert_eq!(client.on_text(invalid, now), [warning(), Effect::Close(1002, "unknown field")]);
    let without_id = endpoint.on_text(r#"{"id":9,"method":"m"}"#, now);
    assert_eq!(without_id, [warning(), Effect::Close(1002, "id must be a non-empty string")]);
}

#[test]
fn malformed_response_fails_its_request_and_gets_no_reply() {
    let malformed = [
        r#"{"id":"ID","result":1,"payload":{}}"#,
        r#"{"id":"ID","result":1,"extra":1}"#,
        r#"{"id":"ID","result":null,"error":{"code":1,"message":""}}"#,
        r#"{"id":"ID","error":null}"#,
        r#"{"id":"ID","error":{"code":"12","message":""}}"#,
        r#"{"id":"ID","error":{"code":1}}"#,
    ];
    for text in malformed {
        let (mut endpoint, now) = machine(Role::Endpoint);
        send_request(&mut endpoint, 7, now);
        // The peer has a request of its own in flight, whose id looks like that of the response.
        endpoint.on_text(r#"{"id":"9","method":"m"}"#, now);
        let effects = endpoint.on_text(&text.replace("ID", "9"), now);
        let unknown = [Effect::Warn(Warning::InvalidEnvelope), Effect::Warn(Warning::UnknownResponse)];
        assert_eq!(effects, unknown, "{text}");
        let effects = endpoint.on_text(&text.replace("ID", "s1"), now);
        assert_eq!(
            effects.iter().filter_map(failure_code).collect::<Vec<_>>(),
            [(7, wire::INTERNAL)],
            "{text}"
        );
        assert!(
            !effects.iter().any(|effect| matches!(effect, Effect::Send(_) | Effect::Close(..))),
            "{text}"
        );
        assert!(
            endpoint.send_response("9", &Ok(json!(1))).is_some(),
            "the peer's own request is still handled"
        );
    }
    let (mut endpoint, now) = machine(Role::Endpoint);
    let late = endpoint.on_text(r#"{"id":"s3"}"#, now);
    assert_eq!(late, [Effect::Warn(Warning::UnknownResponse)], "a request of an earlier connection");
    let (mut client, now) = machine(Role::Client);
    let closed = client.on_text(r#"{"id":"9","result":1,"payload":{}}"#, now);
    assert!(matches!(closed[..], [Effect::Warn(_), Effect::Close(1002, _)]), "a client closes");
}

#[test]
fn requests_past_the_limit_are_rejected_both_ways() {
    let (mut machine, now) = machine(Role::Endpoint);
    for waiter in 0..2 {
        assert_eq!(failure_code(&send_request(&mut machine, waiter, now)), None);
    }
    assert_eq!(failure_code(&send_request(&mut machine, 2, now)), Some((2, wire::RESOURCE_EXHAUSTED)));
    let request = |id: &str| json!({"id": id, "method": "m"}).to_string();
    for id in ["a", "b"] {
        assert!(matches!(machine.on_text(&request(id), now)[..], [Effect::HandleRequest { .. }]));
    }
    let rejection = wire::encode_response("c", &Err(Status::new(8, "too many requests in flight")));
    assert_eq!(machine.on_text(&request("c"), now), [Effect::Send(rejection)]);
    assert!(machine.send_response("a", &Ok(json!(1))).is_some());
    assert!(matches!(machine.on_text(&request("c"), now)[..], [Effect::HandleRequest { .. }]));
}

#[test]
fn request_with_id_in_flight_is_rejected() {
    let (mut machine, now) = machine(Role::Endpoint);
    let request = r#"{"id":"a","method":"m"}"#;
    assert!(matches!(machine.on_text(request, now)[..], [Effect::HandleRequest { .. }]));
    assert!(matches!(&machine.on_text(request, now)[..], [Effect::Send(text)] if text.contains("in flight")));
    assert_eq!(
        machine.send_response("a", &Ok(json!(1))),
        Some(Effect::Send(wire::encode_response("a", &Ok(json!(1)))))
    );
    assert_eq!(machine.send_response("a", &Ok(json!(1))), None);
}

#[test]
fn heartbeat_is_answered_by_the_machine() {
    let (mut machine, now) = machine(Role::Endpoint);
    let heartbeat = wire::encode_request("h1", HEARTBEAT, &json!({}));
    assert_eq!(machine.on_text(&heartbeat, now), [Effect::Send(wire::encode_response("h1", &Ok(json!({}))))]);
}

#[test]
fn client_sends_heartbeats_and_closes_on_timeout() {
    let (mut machine, now) = machine(Role::Client);
    let due = now + Duration::from_secs(15);
    assert_eq!(machine.wake_at(), Some(due));
    let heartbeat = |id: &str| Effect::Send(wire::encode_request(id, HEARTBEAT, &json!({})));
    assert_eq!(machine.on_wake(due), [heartbeat("h1")]);
    assert_eq!(machine.on_text(r#"{"id":"h1","error":{"code":12,"message":""}}"#, due), []);
    assert_eq!(machine.on_wake(due + Duration::from_secs(15)), [heartbeat("h2")]);
    let closes = [Effect::Warn(Warning::HeartbeatTimeout), Effect::Close(4000, "heartbeat timeout")];
    assert_eq!(machine.on_wake(due + Duration::from_secs(20)), closes);
}

#[test]
fn end_of_connection_fails_pending_and_keeps_id_sequence() {
    let (mut machine, now) = machine(Role::Client);
    send_request(&mut machine, 7, now);
    machine.on_text(r#"{"id":"a","method":"m"}"#, now);
    let effects = machine.on_end();
    assert_eq!(effects.iter().filter_map(failure_code).collect::<Vec<_>>(), [(7, wire::UNAVAILABLE)]);
    assert_eq!(machine.send_response("a", &Ok(json!(1))), None);
    machine.on_open(now);
    assert!(matches!(send_request(&mut machine, 8, now), Effect::Send(text) if text.contains(r#""id":"2""#)));
    assert_eq!(machine.on_text(r#"{"id":"1","result":1}"#, now), [Effect::Warn(Warning::StaleResponse)]);
}

#[test]
fn pending_requests_fail_in_the_order_of_sending() {
    let now = Instant::now();
    let failed = |effects: Vec<Effect<u32>>| -> Vec<u32> {
        effects.iter().filter_map(failure_code).map(|(waiter, _)| waiter).collect()
    };
    let sent: Vec<u32> = (0..16).collect();
    for is_timeout in [false, true] {
        let mut machine = Machine::new(ConnectionConfig { pending_max: sent.len(), ..config(Role::Client) });
        for waiter in &sent {
            send_request(&mut machine, *waiter, now);
        }
        let effects = if is_timeout { machine.on_wake(now + TIMEOUT) } else { machine.on_end() };
        assert_eq!(failed(effects), sent);
    }
}

#[test]
fn expired_requests_past_the_limit_are_forgotten() {
    let (mut machine, now) = machine(Role::Client);
    for _ in 0..=EXPIRED_REQUESTS_MAX {
        send_request(&mut machine, 0, now);
        machine.on_wake(now + TIMEOUT);
    }
    let response = |id: u64| json!({"id": id.to_string(), "result": 1}).to_string();
    assert_eq!(machine.on_text(&response(1), now), [Effect::Warn(Warning::DuplicateResponse)]);
    assert_eq!(machine.on_text(&response(2), now), [Effect::Warn(Warning::StaleResponse)]);
}

#[derive(Debug, Clone)]
enum Step {
    SendRequest,
    /// A response with this id arrives.
    Receive(u64),
    Wait(u64),
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::SendRequest),
        3 => (0..12_u64).prop_map(Step::Receive),
        2 => (0..150_u64).prop_map(Step::Wait),
        1 => Just(Step::Reconnect),
    ]
}

proptest! {
    #[test]
    fn every_request_completes_once(steps in prop::collection::vec(step(), 0..60)) {
        let (mut machine, mut now) = machine(Role::Client);
        let mut waiter = 0;
        let mut completed = HashSet::new();
        let mut record = |effects: Vec<Effect<u32>>| {
            for effect in effects {
                if let Effect::Complete(waiter, _) = effect {
                    prop_assert!(completed.insert(waiter));
                }
            }
            Ok(())
        };
        for step in steps {
            match step {
                Step::SendRequest => {
                    waiter += 1;
                    record(vec![send_request(&mut machine, waiter, now)])?;
                }
                Step::Receive(id) => {
                    record(machine.on_text(&json!({"id": id.to_string(), "result": 1}).to_string(), now))?;
                }
                Step::Wait(ms) => {
                    now += Duration::from_millis(ms);
                    record(machine.on_wake(now))?;
                }
                Step::Reconnect => {
                    record(machine.on_end())?;
                    machine.on_open(now);
                }
            }
        }
        record(machine.on_end())?;
        prop_assert_eq!(completed.len(), waiter as usize);
    }
}

//! What the machine promises, step by step, and that nobody who asked is forgotten.

use super::*;
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_millis(100);

fn terms(role: Role) -> Terms {
    let heartbeat = (Duration::from_secs(15), Duration::from_secs(5));
    Terms { role, asked_max: 2, served_max: 2, heartbeat }
}

fn machine(role: Role) -> (Machine<u32>, Instant) {
    let now = Instant::now();
    let mut machine = Machine::new(terms(role));
    machine.on_open(now);
    (machine, now)
}

fn ask(machine: &mut Machine<u32>, waiter: u32, now: Instant) -> Effect<u32> {
    machine.ask("a.B/C", &json!({"k": 1}), TIMEOUT, waiter, now)
}

fn status(effect: &Effect<u32>) -> Option<(u32, i64)> {
    match effect {
        Effect::Settled(waiter, Err(status)) => Some((*waiter, status.code)),
        _ => None,
    }
}

#[test]
fn each_role_numbers_its_requests_in_its_own_way() {
    let (mut endpoint, now) = machine(Role::Endpoint);
    let (mut client, _) = machine(Role::Client);
    let sent = |id: &str| Effect::Send(wire::request(id, "a.B/C", &json!({"k": 1})));
    assert_eq!(ask(&mut endpoint, 0, now), sent("s1"));
    assert_eq!(ask(&mut endpoint, 0, now), sent("s2"));
    assert_eq!(ask(&mut client, 0, now), sent("1"));
}

#[test]
fn an_answer_reaches_whoever_asked_and_a_second_one_is_a_duplicate() {
    let (mut machine, now) = machine(Role::Endpoint);
    ask(&mut machine, 7, now);
    let answer = r#"{"id":"s1","result":{"ok":true}}"#;
    assert_eq!(machine.on_text(answer, now), [Effect::Settled(7, Ok(json!({"ok": true})))]);
    assert_eq!(machine.on_text(answer, now), [Effect::Warn(Warning::DuplicateResponse)]);
}

#[test]
fn an_answer_after_the_timeout_is_stale() {
    let (mut machine, now) = machine(Role::Client);
    ask(&mut machine, 7, now);
    assert_eq!(machine.wake_at(), Some(now + TIMEOUT));
    let effects = machine.on_wake(now + TIMEOUT);
    assert_eq!(effects.iter().filter_map(status).collect::<Vec<_>>(), [(7, wire::DEADLINE_EXCEEDED)]);
    assert_eq!(machine.on_text(r#"{"id":"1","result":1}"#, now), [Effect::Warn(Warning::StaleResponse)]);
}

#[test]
fn an_id_that_was_never_ours_is_unknown() {
    let (mut machine, now) = machine(Role::Client);
    ask(&mut machine, 7, now);
    for id in ["2", "01", "+1", "1 ", "s1", "h1", "x"] {
        let text = json!({"id": id, "result": 1}).to_string();
        assert_eq!(machine.on_text(&text, now), [Effect::Warn(Warning::UnknownResponse)], "{id}");
    }
}

#[test]
fn an_id_alone_is_an_empty_answer_to_us_and_a_broken_frame_otherwise() {
    let (mut machine, now) = machine(Role::Endpoint);
    ask(&mut machine, 7, now);
    assert_eq!(machine.on_text(r#"{"id":"s1"}"#, now), [Effect::Settled(7, Ok(Value::Null))]);
    let effects = machine.on_text(r#"{"id":"zz"}"#, now);
    assert!(matches!(&effects[..], [Effect::Warn(Warning::InvalidEnvelope), Effect::Send(_)]), "{effects:?}");
}

#[test]
fn a_broken_frame_is_answered_by_an_endpoint_and_ends_a_client() {
    let (mut endpoint, now) = machine(Role::Endpoint);
    let (mut client, _) = machine(Role::Client);
    let broken = r#"{"id":"9","method":"m","extra":1}"#;
    let refusal = wire::response("9", &Err(Status::new(wire::INVALID_ARGUMENT, "unknown field")));
    let warning = || Effect::Warn(Warning::InvalidEnvelope);
    assert_eq!(endpoint.on_text(broken, now), [warning(), Effect::Send(refusal)]);
    assert_eq!(client.on_text(broken, now), [warning(), Effect::Close(1002, "unknown field")]);
    let nameless = endpoint.on_text(r#"{"id":9,"method":"m"}"#, now);
    assert_eq!(nameless, [warning(), Effect::Close(1002, "id must be a non-empty string")]);
}

#[test]
fn malformed_response_is_never_answered_and_fails_what_it_answers() {
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
        ask(&mut endpoint, 7, now);
        // The peer has a request of its own in flight, whose id looks like that of the response.
        endpoint.on_text(r#"{"id":"9","method":"m"}"#, now);
        let effects = endpoint.on_text(&text.replace("ID", "9"), now);
        let unknown = [Effect::Warn(Warning::InvalidEnvelope), Effect::Warn(Warning::UnknownResponse)];
        assert_eq!(effects, unknown, "{text}");
        let effects = endpoint.on_text(&text.replace("ID", "s1"), now);
        assert_eq!(effects.iter().filter_map(status).collect::<Vec<_>>(), [(7, wire::INTERNAL)], "{text}");
        assert!(
            !effects.iter().any(|effect| matches!(effect, Effect::Send(_) | Effect::Close(..))),
            "{text}"
        );
        assert!(endpoint.answer("9", &Ok(json!(1))).is_some(), "the request goes on");
    }
    let (mut endpoint, now) = machine(Role::Endpoint);
    let late = endpoint.on_text(r#"{"id":"s3"}"#, now);
    assert_eq!(late, [Effect::Warn(Warning::UnknownResponse)], "of a connection before this one");
    let (mut client, now) = machine(Role::Client);
    let closed = client.on_text(r#"{"id":"9","result":1,"payload":{}}"#, now);
    assert!(matches!(closed[..], [Effect::Warn(_), Effect::Close(1002, _)]), "a client hangs up");
}

#[test]
fn requests_past_the_limit_are_refused_both_ways() {
    let (mut machine, now) = machine(Role::Endpoint);
    for waiter in 0..2 {
        assert_eq!(status(&ask(&mut machine, waiter, now)), None);
    }
    assert_eq!(status(&ask(&mut machine, 2, now)), Some((2, wire::RESOURCE_EXHAUSTED)));
    let request = |id: &str| json!({"id": id, "method": "m"}).to_string();
    for id in ["a", "b"] {
        assert!(matches!(machine.on_text(&request(id), now)[..], [Effect::Serve { .. }]));
    }
    let refused = wire::response("c", &Err(Status::new(8, "too many requests in flight")));
    assert_eq!(machine.on_text(&request("c"), now), [Effect::Send(refused)]);
    assert!(machine.answer("a", &Ok(json!(1))).is_some());
    assert!(matches!(machine.on_text(&request("c"), now)[..], [Effect::Serve { .. }]));
}

#[test]
fn a_request_with_an_id_in_flight_is_refused_and_the_first_one_goes_on() {
    let (mut machine, now) = machine(Role::Endpoint);
    let request = r#"{"id":"a","method":"m"}"#;
    assert!(matches!(machine.on_text(request, now)[..], [Effect::Serve { .. }]));
    assert!(matches!(&machine.on_text(request, now)[..], [Effect::Send(text)] if text.contains("in flight")));
    assert_eq!(machine.answer("a", &Ok(json!(1))), Some(Effect::Send(wire::response("a", &Ok(json!(1))))));
    assert_eq!(machine.answer("a", &Ok(json!(1))), None);
}

#[test]
fn a_heartbeat_is_answered_at_once_whatever_else_is_served() {
    let (mut machine, now) = machine(Role::Endpoint);
    let beat = wire::request("h1", HEARTBEAT, &json!({}));
    assert_eq!(machine.on_text(&beat, now), [Effect::Send(wire::response("h1", &Ok(json!({}))))]);
}

#[test]
fn a_client_asks_for_signs_of_life_and_hangs_up_without_one() {
    let (mut machine, now) = machine(Role::Client);
    let due = now + Duration::from_secs(15);
    assert_eq!(machine.wake_at(), Some(due));
    let beat = |id: &str| Effect::Send(wire::request(id, HEARTBEAT, &json!({})));
    assert_eq!(machine.on_wake(due), [beat("h1")]);
    assert_eq!(machine.on_text(r#"{"id":"h1","error":{"code":12,"message":""}}"#, due), []);
    assert_eq!(machine.on_wake(due + Duration::from_secs(15)), [beat("h2")]);
    let ends = [Effect::Warn(Warning::HeartbeatTimeout), Effect::Close(4000, "heartbeat timeout")];
    assert_eq!(machine.on_wake(due + Duration::from_secs(20)), ends);
}

#[test]
fn the_end_of_the_connection_fails_what_is_pending_and_ids_go_on() {
    let (mut machine, now) = machine(Role::Client);
    ask(&mut machine, 7, now);
    machine.on_text(r#"{"id":"a","method":"m"}"#, now);
    let effects = machine.on_end();
    assert_eq!(effects.iter().filter_map(status).collect::<Vec<_>>(), [(7, wire::UNAVAILABLE)]);
    assert_eq!(machine.answer("a", &Ok(json!(1))), None);
    machine.on_open(now);
    assert!(matches!(ask(&mut machine, 8, now), Effect::Send(text) if text.contains(r#""id":"2""#)));
    assert_eq!(machine.on_text(r#"{"id":"1","result":1}"#, now), [Effect::Warn(Warning::StaleResponse)]);
}

#[test]
fn only_so_many_unanswered_requests_are_remembered() {
    let (mut machine, now) = machine(Role::Client);
    for _ in 0..=UNANSWERED_KEPT_MAX {
        ask(&mut machine, 0, now);
        machine.on_wake(now + TIMEOUT);
    }
    let answer = |id: u64| json!({"id": id.to_string(), "result": 1}).to_string();
    assert_eq!(machine.on_text(&answer(1), now), [Effect::Warn(Warning::DuplicateResponse)]);
    assert_eq!(machine.on_text(&answer(2), now), [Effect::Warn(Warning::StaleResponse)]);
}

#[derive(Debug, Clone)]
enum Step {
    Ask,
    Answer(u64),
    Wait(u64),
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Ask),
        3 => (0..12_u64).prop_map(Step::Answer),
        2 => (0..150_u64).prop_map(Step::Wait),
        1 => Just(Step::Reconnect),
    ]
}

proptest! {
    /// Whatever happens, everybody who asked is told exactly once.
    #[test]
    fn every_request_is_settled_once(steps in prop::collection::vec(step(), 0..60)) {
        let (mut machine, mut now) = machine(Role::Client);
        let mut waiter = 0;
        let mut settled = HashSet::new();
        let mut settle = |effects: Vec<Effect<u32>>| {
            for effect in effects {
                if let Effect::Settled(waiter, _) = effect {
                    prop_assert!(settled.insert(waiter));
                }
            }
            Ok(())
        };
        for step in steps {
            match step {
                Step::Ask => {
                    waiter += 1;
                    settle(vec![ask(&mut machine, waiter, now)])?;
                }
                Step::Answer(id) => {
                    settle(machine.on_text(&json!({"id": id.to_string(), "result": 1}).to_string(), now))?;
                }
                Step::Wait(ms) => {
                    now += Duration::from_millis(ms);
                    settle(machine.on_wake(now))?;
                }
                Step::Reconnect => {
                    settle(machine.on_end())?;
                    machine.on_open(now);
                }
            }
        }
        settle(machine.on_end())?;
        prop_assert_eq!(settled.len(), waiter as usize);
    }
}

//! What a connection answers, in which order, and where it stops taking more.

use proptest::prelude::*;

use super::*;

fn open() -> Machine {
    Machine::new(None, Methods::Core)
}

fn guarded() -> Machine {
    let mut machine = Machine::new(Some("secret-token".into()), Methods::Core);
    assert_eq!(machine.on_open(Instant::now()), []);
    machine
}

fn sent(effects: &[Effect]) -> Vec<&str> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(frame) => Some(frame.as_str()),
            Effect::Close | Effect::Begin { .. } => None,
        })
        .collect()
}

fn begun(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Begin { job, .. } => Some(*job),
        Effect::Send(_) | Effect::Close => None,
    })
}

const CHAT: &str = r#"{"id":"c","method":"chat.send","params":{"channel":"w","account":"a","content":"x"}}"#;

fn refusal() -> Vec<Effect> {
    vec![Effect::Send(wire::auth_failed()), Effect::Close]
}

#[test]
fn without_a_token_the_hello_comes_unprompted() {
    assert_eq!(open().on_open(Instant::now()), [Effect::Send(wire::hello())]);
    assert_eq!(open().wake_at(), None);
}

#[test]
fn the_right_token_is_answered_with_the_hello() {
    let mut machine = guarded();
    assert_eq!(machine.on_text(r#"{"token":"secret-token"}"#), [Effect::Send(wire::hello())]);
    assert_eq!(sent(&machine.on_text(r#"{"id":1,"method":"ping"}"#)), [r#"{"id":"1","result":"pong"}"#]);
    assert_eq!(machine.wake_at(), None);
}

#[test]
fn any_other_first_frame_is_refused_and_nothing_follows() {
    let wrong = [
        r#"{"token":"secret-tokeX"}"#,
        r#"{"token":"secret"}"#,
        r#"{"token":""}"#,
        "{",
        "[]",
        r#"{"id":"1","method":"ping"}"#,
    ];
    for text in wrong {
        let mut machine = guarded();
        assert_eq!(machine.on_text(text), refusal(), "{text}");
        assert_eq!(machine.on_text(r#"{"token":"secret-token"}"#), []);
    }
    assert_eq!(guarded().on_binary(), refusal());
}

#[test]
fn a_token_that_does_not_come_in_time_is_refused() {
    let start = Instant::now();
    let mut machine = Machine::new(Some("t".into()), Methods::Core);
    machine.on_open(start);
    let end = start + Duration::from_millis(AUTH_MS_MAX);
    assert_eq!(machine.wake_at(), Some(end));
    assert_eq!(machine.on_wake(end - Duration::from_millis(1)), []);
    assert_eq!(machine.on_wake(end), refusal());
}

#[test]
fn binary_frames_are_ignored_once_the_connection_is_live() {
    assert_eq!(open().on_binary(), []);
}

#[test]
fn requests_are_served_in_order_and_ping_overtakes() {
    let mut machine = open();
    let job = begun(&machine.on_text(CHAT)).unwrap();
    assert_eq!(machine.on_text(r#"{"id":"s","method":"status"}"#), []);
    assert_eq!(machine.on_text(r#"{"id":"u","method":"nope"}"#), []);
    assert_eq!(sent(&machine.on_text(r#"{"id":"p","method":"ping"}"#)), [r#"{"id":"p","result":"pong"}"#]);
    let text = machine.on_progress(job, &Progress::Event(Event::Text("hi".to_owned())));
    assert_eq!(sent(&text), [r#"{"data":"hi","event":"text","id":"c"}"#]);
    let done = machine.on_progress(job, &Progress::Event(Event::Done));
    assert_eq!(sent(&done), [r#"{"event":"done","id":"c"}"#]);
    let status = begun(&done).unwrap();
    let answered = machine.on_progress(status, &Progress::Answer(Ok(json!({"sessions": 1}))));
    assert_eq!(
        sent(&answered),
        [r#"{"id":"s","result":{"sessions":1}}"#, r#"{"id":"u","error":"unknown method: nope"}"#]
    );
}

#[test]
fn an_error_event_does_not_end_a_stream() {
    let mut machine = open();
    let job = begun(&machine.on_text(CHAT)).unwrap();
    machine.on_text(CHAT);
    let failed = machine.on_progress(job, &Progress::Event(Event::Error("no".to_owned())));
    assert_eq!(begun(&failed), None);
    assert_eq!(begun(&machine.on_progress(job, &Progress::Event(Event::Done))), Some(job + 1));
}

#[test]
fn what_comes_from_a_job_that_has_ended_is_dropped() {
    let mut machine = open();
    let job = begun(&machine.on_text(CHAT)).unwrap();
    machine.on_progress(job, &Progress::Answer(Err("no".to_owned())));
    assert_eq!(machine.on_progress(job, &Progress::Event(Event::Done)), []);
    let next = begun(&machine.on_text(CHAT)).unwrap();
    assert_ne!(job, next);
    assert_eq!(machine.on_progress(job, &Progress::Event(Event::Done)), []);
}

#[test]
fn a_frame_that_cannot_be_read_is_answered_under_the_id_zero_and_the_connection_goes_on() {
    let mut machine = open();
    let broken = machine.on_text("{");
    assert!(sent(&broken)[0].starts_with(r#"{"id":"0","error":"parse error: "#));
    assert_eq!(sent(&machine.on_text(r#"{"id":"p","method":"ping"}"#)).len(), 1);
}

#[test]
fn requests_that_wait_have_a_largest_number() {
    let mut machine = open();
    machine.on_text(CHAT);
    for _ in 0..REQUESTS_WAITING_MAX {
        assert_eq!(machine.on_text(CHAT), []);
    }
    let refused = machine.on_text(r#"{"id":"late","method":"status"}"#);
    assert_eq!(sent(&refused), [r#"{"id":"late","error":"too many requests are waiting"}"#]);
    assert_eq!(sent(&machine.on_text(r#"{"id":"p","method":"ping"}"#)).len(), 1);
}

#[test]
fn requests_that_wait_have_a_largest_weight() {
    let status = r#"{"id":"b","method":"status"}"#;
    let padded = |bytes: usize| format!("{status}{}", " ".repeat(bytes - status.len()));
    let mut machine = open();
    machine.on_text(CHAT);
    assert_eq!(machine.on_text(&padded(REQUESTS_WAITING_BYTES_MAX - 100)), []);
    assert_eq!(machine.on_text(&padded(100)), []);
    assert_eq!(
        sent(&machine.on_text(&padded(30))),
        [r#"{"id":"b","error":"too many requests are waiting"}"#]
    );
    let first = machine.on_progress(1, &Progress::Event(Event::Done));
    assert!(begun(&first).is_some());
    assert_eq!(machine.on_text(&padded(30)), []);
}

#[derive(Debug, Clone)]
enum Step {
    Chat(u8),
    Status(u8),
    Broken,
    Text,
    End,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<u8>().prop_map(Step::Chat),
        any::<u8>().prop_map(Step::Status),
        Just(Step::Broken),
        Just(Step::Text),
        Just(Step::End),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// At most one job runs, and every request is answered to its end in the order in which it came.
    #[test]
    fn every_request_is_ended_once_and_in_order(steps in steps()) {
        let mut machine = open();
        let (mut asked, mut ended, mut running) = (Vec::new(), Vec::new(), None);
        let mut take = |effects: Vec<Effect>, running: &mut Option<u64>| {
            for effect in effects {
                match effect {
                    Effect::Begin { job, .. } => { assert_eq!(running.replace(job), None); }
                    Effect::Send(frame) => {
                        let frame: Value = serde_json::from_str(&frame).unwrap();
                        if frame.get("event").is_none_or(|event| event == "done") {
                            ended.push(frame["id"].as_str().unwrap().to_owned());
                        }
                    }
                    Effect::Close => panic!("closed"),
                }
            }
        };
        for step in steps {
            match step {
                Step::Chat(id) => {
                    asked.push(id.to_string());
                    let params = json!({"channel": "w", "account": "a", "content": ""});
                    take(machine.on_text(&json!({"id": id, "method": "chat.send", "params": params}).to_string()), &mut running);
                }
                Step::Status(id) => {
                    asked.push(id.to_string());
                    take(machine.on_text(&json!({"id": id, "method": "status"}).to_string()), &mut running);
                }
                Step::Broken => {
                    asked.push("0".to_owned());
                    take(machine.on_text("{"), &mut running);
                }
                Step::Text => if let Some(job) = running {
                    take(machine.on_progress(job, &Progress::Event(Event::Text(String::new()))), &mut running);
                },
                Step::End => if let Some(job) = running.take() {
                    take(machine.on_progress(job, &Progress::Event(Event::Done)), &mut running);
                },
            }
        }
        while let Some(job) = running.take() {
            take(machine.on_progress(job, &Progress::Event(Event::Done)), &mut running);
        }
        prop_assert_eq!(asked, ended);
    }
}

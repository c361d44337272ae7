//! What a connection sends, in which order, and at which limits it rejects requests.

use proptest::prelude::*;

use super::*;

fn open() -> Machine {
    Machine::new(None, Methods::Core)
}

fn open_with_token() -> Machine {
    let mut machine = Machine::new(Some("secret-token".into()), Methods::Core);
    assert_eq!(machine.on_open(Instant::now()), []);
    machine
}

fn sent_frames(effects: &[Effect]) -> Vec<&str> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(frame) => Some(frame.as_str()),
            Effect::Close | Effect::StartJob { .. } => None,
        })
        .collect()
}

fn started_job(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::StartJob { job, .. } => Some(*job),
        Effect::Send(_) | Effect::Close => None,
    })
}

const CHAT: &str = r#"{"id":"c","method":"chat.send","params":{"channel":"w","account":"a","content":"x"}}"#;

fn auth_failure() -> Vec<Effect> {
    vec![Effect::Send(wire::auth_failed_frame()), Effect::Close]
}

#[test]
fn hello_without_a_token_is_sent_on_open() {
    assert_eq!(open().on_open(Instant::now()), [Effect::Send(wire::hello_frame())]);
    assert_eq!(open().wake_at(), None);
}

#[test]
fn correct_token_is_answered_with_hello() {
    let mut machine = open_with_token();
    assert_eq!(machine.on_text(r#"{"token":"secret-token"}"#), [Effect::Send(wire::hello_frame())]);
    assert_eq!(
        sent_frames(&machine.on_text(r#"{"id":1,"method":"ping"}"#)),
        [r#"{"id":"1","result":"pong"}"#]
    );
    assert_eq!(machine.wake_at(), None);
}

#[test]
fn wrong_first_frame_fails_authentication_and_closes() {
    let wrong = [
        r#"{"token":"secret-tokeX"}"#,
        r#"{"token":"secret"}"#,
        r#"{"token":""}"#,
        "{",
        "[]",
        r#"{"id":"1","method":"ping"}"#,
    ];
    for text in wrong {
        let mut machine = open_with_token();
        assert_eq!(machine.on_text(text), auth_failure(), "{text}");
        assert_eq!(machine.on_text(r#"{"token":"secret-token"}"#), []);
    }
    assert_eq!(open_with_token().on_binary(), auth_failure());
}

#[test]
fn missing_token_times_out() {
    let start = Instant::now();
    let mut machine = Machine::new(Some("t".into()), Methods::Core);
    machine.on_open(start);
    let end = start + Duration::from_millis(AUTH_MS_MAX);
    assert_eq!(machine.wake_at(), Some(end));
    assert_eq!(machine.on_wake(end - Duration::from_millis(1)), []);
    assert_eq!(machine.on_wake(end), auth_failure());
}

#[test]
fn binary_frame_on_live_connection_is_ignored() {
    assert_eq!(open().on_binary(), []);
}

#[test]
fn requests_are_served_in_order_except_ping() {
    let mut machine = open();
    let job = started_job(&machine.on_text(CHAT)).unwrap();
    assert_eq!(machine.on_text(r#"{"id":"s","method":"status"}"#), []);
    assert_eq!(machine.on_text(r#"{"id":"u","method":"nope"}"#), []);
    assert_eq!(
        sent_frames(&machine.on_text(r#"{"id":"p","method":"ping"}"#)),
        [r#"{"id":"p","result":"pong"}"#]
    );
    let text = machine.on_progress(job, &Progress::Event(Event::Text("hi".to_owned())));
    assert_eq!(sent_frames(&text), [r#"{"data":"hi","event":"text","id":"c"}"#]);
    let done = machine.on_progress(job, &Progress::Event(Event::Done));
    assert_eq!(sent_frames(&done), [r#"{"event":"done","id":"c"}"#]);
    let status = started_job(&done).unwrap();
    let responses = machine.on_progress(status, &Progress::Response(Ok(json!({"sessions": 1}))));
    assert_eq!(
        sent_frames(&responses),
        [r#"{"id":"s","result":{"sessions":1}}"#, r#"{"id":"u","error":"unknown method: nope"}"#]
    );
}

#[test]
fn error_event_does_not_end_the_stream() {
    let mut machine = open();
    let job = started_job(&machine.on_text(CHAT)).unwrap();
    machine.on_text(CHAT);
    let failed = machine.on_progress(job, &Progress::Event(Event::Error("no".to_owned())));
    assert_eq!(started_job(&failed), None);
    assert_eq!(started_job(&machine.on_progress(job, &Progress::Event(Event::Done))), Some(job + 1));
}

#[test]
fn progress_of_an_ended_job_is_ignored() {
    let mut machine = open();
    let job = started_job(&machine.on_text(CHAT)).unwrap();
    machine.on_progress(job, &Progress::Response(Err("no".to_owned())));
    assert_eq!(machine.on_progress(job, &Progress::Event(Event::Done)), []);
    let next = started_job(&machine.on_text(CHAT)).unwrap();
    assert_ne!(job, next);
    assert_eq!(machine.on_progress(job, &Progress::Event(Event::Done)), []);
}

#[test]
fn unreadable_frame_is_answered_with_id_zero() {
    let mut machine = open();
    let broken = machine.on_text("{");
    assert!(sent_frames(&broken)[0].starts_with(r#"{"id":"0","error":"parse error: "#));
    assert_eq!(sent_frames(&machine.on_text(r#"{"id":"p","method":"ping"}"#)).len(), 1);
}

#[test]
fn requests_past_the_queue_length_are_rejected() {
    let mut machine = open();
    machine.on_text(CHAT);
    for _ in 0..REQUESTS_QUEUED_MAX {
        assert_eq!(machine.on_text(CHAT), []);
    }
    let rejection = machine.on_text(r#"{"id":"late","method":"status"}"#);
    assert_eq!(sent_frames(&rejection), [r#"{"id":"late","error":"too many requests are waiting"}"#]);
    assert_eq!(sent_frames(&machine.on_text(r#"{"id":"p","method":"ping"}"#)).len(), 1);
}

#[test]
fn requests_past_the_queue_bytes_are_rejected() {
    let status = r#"{"id":"b","method":"status"}"#;
    let padded = |bytes: usize| format!("{status}{}", " ".repeat(bytes - status.len()));
    let mut machine = open();
    machine.on_text(CHAT);
    assert_eq!(machine.on_text(&padded(REQUESTS_QUEUED_BYTES_MAX - 100)), []);
    assert_eq!(machine.on_text(&padded(100)), []);
    assert_eq!(
        sent_frames(&machine.on_text(&padded(30))),
        [r#"{"id":"b","error":"too many requests are waiting"}"#]
    );
    let first = machine.on_progress(1, &Progress::Event(Event::Done));
    assert!(started_job(&first).is_some());
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
    /// At most one job runs at a time.
    #[test]
    fn every_request_ends_once_and_in_order(steps in steps()) {
        let mut machine = open();
        let (mut received, mut ended, mut running) = (Vec::new(), Vec::new(), None);
        let mut apply = |effects: Vec<Effect>, running: &mut Option<u64>| {
            for effect in effects {
                match effect {
                    Effect::StartJob { job, .. } => { assert_eq!(running.replace(job), None); }
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
                    received.push(id.to_string());
                    let params = json!({"channel": "w", "account": "a", "content": ""});
                    apply(machine.on_text(&json!({"id": id, "method": "chat.send", "params": params}).to_string()), &mut running);
                }
                Step::Status(id) => {
                    received.push(id.to_string());
                    apply(machine.on_text(&json!({"id": id, "method": "status"}).to_string()), &mut running);
                }
                Step::Broken => {
                    received.push("0".to_owned());
                    apply(machine.on_text("{"), &mut running);
                }
                Step::Text => if let Some(job) = running {
                    apply(machine.on_progress(job, &Progress::Event(Event::Text(String::new()))), &mut running);
                },
                Step::End => if let Some(job) = running.take() {
                    apply(machine.on_progress(job, &Progress::Event(Event::Done)), &mut running);
                },
            }
        }
        while let Some(job) = running.take() {
            apply(machine.on_progress(job, &Progress::Event(Event::Done)), &mut running);
        }
        prop_assert_eq!(received, ended);
    }
}

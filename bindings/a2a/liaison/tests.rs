//! What a link makes of the frames of a gateway elsewhere.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::outlet::{Delivery, outlet};
use super::outstanding::OUTSTANDING_MAX;
use super::*;

struct Desk {
    liaison: Liaison,
    out: Outbox,
}

impl Desk {
    fn new() -> Self {
        let mut desk = Self { liaison: Liaison::new("far".to_owned(), None), out: Outbox::default() };
        desk.open();
        desk.out.take_texts();
        desk
    }

    /// Connects to a gateway that knows `ping`.
    fn open(&mut self) {
        self.liaison.on_open(Instant::now(), &mut self.out);
        assert!(!self.liaison.is_ready());
        self.hear(json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "client-9"}}));
        assert!(!self.liaison.is_ready());
        self.hear(json!({"type": "pong", "correlationId": "probe-ping"}));
        assert!(self.liaison.is_ready());
    }

    /// The frames that went out, without the fences.
    fn sent(&mut self) -> Vec<Value> {
        let texts = self.out.take_texts().into_iter();
        let frames = texts.map(|text| serde_json::from_str(&text).unwrap());
        frames.filter(|frame: &Value| frame["type"] != "ping").collect()
    }

    fn line(&mut self, number: u64) -> Heard {
        let (outlet, deliveries_rx) = outlet(CancellationToken::new());
        self.order(Order::Open { number: LineNumber(number), outlet });
        Heard(deliveries_rx)
    }

    fn order(&mut self, order: Order) {
        self.liaison.on_command(order, Instant::now(), &mut self.out);
    }

    fn send(&mut self, number: u64, frame: Value) {
        let Value::Object(fields) = frame else { panic!("{frame}") };
        self.order(Order::Send { number: LineNumber(number), fields, fenced: false });
    }

    fn tell(&mut self, number: u64, frame: Value) {
        let Value::Object(fields) = frame else { panic!("{frame}") };
        self.order(Order::Send { number: LineNumber(number), fields, fenced: true });
    }

    fn hear(&mut self, frame: Value) {
        self.liaison.on_text(&frame.to_string(), Instant::now(), &mut self.out);
    }
}

/// What comes out of a line.
struct Heard(mpsc::Receiver<Delivery>);

impl Heard {
    fn try_recv(&mut self) -> Result<Value, mpsc::error::TryRecvError> {
        self.0.try_recv().map(|delivery| match delivery {
            Delivery::Frame(frame, _) => frame,
            Delivery::Close { code, .. } => panic!("closed with {code}"),
        })
    }
}

fn shake(agent: &str) -> Value {
    json!({"type": "handshake", "from": agent, "content": {"action": "advertise"}})
}

fn question(agent: &str, id: &str) -> Value {
    json!({"type": "message", "agent": agent, "content": {}, "metadata": {"correlationId": id}})
}

#[test]
fn answer_is_for_the_line_that_asked_whatever_agent_it_names() {
    let mut desk = Desk::new();
    let mut coder = desk.line(1);
    let mut client = desk.line(2);
    desk.send(1, shake("coder"));
    desk.send(2, question("coder", "c"));
    desk.hear(question("coder", "c"));
    assert_eq!(coder.try_recv().unwrap()["agent"], "coder");
    let mut answer = question("coder", "c");
    answer["metadata"]["parentId"] = json!("m");
    desk.hear(answer.clone());
    assert_eq!(client.try_recv().unwrap()["metadata"]["parentId"], "m");
    assert!(coder.try_recv().is_err());
    desk.hear(answer);
    assert_eq!(coder.try_recv().unwrap()["agent"], "coder", "a second one is a message like any other");
    desk.hear(json!({"type": "message", "agent": "client-9", "metadata": {"correlationId": "c"}}));
    assert!(client.try_recv().is_err() && coder.try_recv().is_err(), "it is for none of our agents");
}

#[test]
fn line_without_an_agent_sends_in_the_name_of_the_connection() {
    let mut desk = Desk::new();
    let (_coder, _client) = (desk.line(1), desk.line(2));
    desk.send(1, shake("coder"));
    desk.send(2, question("coder", "c"));
    let mut own = question("x", "d");
    own["from"] = json!("coder");
    desk.send(1, own);
    let senders: Vec<Value> = desk.sent().iter().map(|frame| frame["from"].clone()).collect();
    assert_eq!(senders, [json!("coder"), json!("client-9"), json!("coder")]);
}

#[test]
fn message_without_an_agent_is_delivered_only_where_there_is_one() {
    let mut desk = Desk::new();
    let (mut coder, mut other) = (desk.line(1), desk.line(2));
    desk.send(1, shake("coder"));
    desk.hear(json!({"type": "message", "content": {}}));
    assert!(coder.try_recv().is_ok());
    desk.send(2, shake("dreamer"));
    desk.hear(json!({"type": "message", "content": {}}));
    assert!(coder.try_recv().is_err() && other.try_recv().is_err());
}

#[test]
fn fences_tell_their_lines_in_order() {
    let mut desk = Desk::new();
    let (mut first, mut second) = (desk.line(1), desk.line(2));
    desk.tell(2, json!({"type": "message", "agent": "x"}));
    desk.tell(1, json!({"type": "message", "agent": "x"}));
    desk.hear(json!({"type": "error", "content": {"code": 3001}}));
    desk.hear(json!({"type": "pong"}));
    assert_eq!(second.try_recv().unwrap()["type"], "error");
    assert_eq!(second.try_recv().unwrap()["type"], "pong");
    desk.hear(json!({"type": "pong"}));
    assert_eq!(first.try_recv().unwrap()["type"], "pong");
}

#[test]
fn a_decision_is_for_the_proposer_and_all_agents() {
    let mut desk = Desk::new();
    let (mut alpha, mut proposer, mut other) = (desk.line(1), desk.line(2), desk.line(3));
    desk.send(1, shake("alpha"));
    desk.send(2, json!({"type": "proposal", "content": {}, "metadata": {"correlationId": "p"}}));
    desk.hear(json!({"type": "decision", "content": {"proposalId": "p"}}));
    assert!(alpha.try_recv().is_ok() && proposer.try_recv().is_ok());
    assert!(other.try_recv().is_err());
}

#[test]
fn agents_and_subscriptions_are_told_again_after_a_reconnect() {
    let mut desk = Desk::new();
    let _coder = desk.line(1);
    let gone = desk.line(2);
    desk.send(1, shake("coder"));
    desk.send(1, json!({"type": "subscribe", "content": {"channel": "agent:status"}}));
    desk.send(2, shake("dreamer"));
    drop(gone);
    desk.liaison.on_end(Instant::now());
    assert!(!desk.liaison.is_ready());
    desk.sent();
    desk.open();
    let sent = desk.sent();
    assert_eq!(sent.len(), 4, "{sent:?}");
    assert!(sent.iter().any(|frame| frame["from"] == "coder"));
    assert!(sent.iter().any(|frame| frame["type"] == "subscribe"));
}

#[test]
fn whoever_waits_hears_that_the_connection_was_lost() {
    let mut desk = Desk::new();
    let mut client = desk.line(1);
    desk.send(1, question("coder", "c"));
    desk.tell(1, json!({"type": "message", "agent": "x"}));
    desk.liaison.on_end(Instant::now());
    let lost = client.try_recv().unwrap();
    assert_eq!((&lost["content"]["code"], &lost["correlationId"]), (&json!(1003), &json!("c")));
    assert_eq!(client.try_recv().unwrap()["content"]["code"], 1003);
    assert_eq!(client.try_recv().unwrap()["type"], "pong");
}

#[test]
fn a_line_that_hangs_up_takes_its_agents_along() {
    let mut desk = Desk::new();
    let _coder = desk.line(1);
    desk.send(1, shake("coder"));
    desk.out.take_texts();
    desk.order(Order::HangUp { number: LineNumber(1) });
    let sent = desk.sent();
    assert_eq!((&sent[0]["content"]["status"], &sent[0]["from"]), (&json!("offline"), &json!("coder")));
}

#[test]
fn a_gateway_that_owes_too_many_answers_is_asked_no_more() {
    let mut desk = Desk::new();
    let mut client = desk.line(1);
    for number in 0..OUTSTANDING_MAX / 2 {
        desk.send(1, question("coder", &number.to_string()));
    }
    assert!(client.try_recv().is_err());
    desk.send(1, question("coder", "late"));
    assert_eq!(client.try_recv().unwrap()["content"]["code"], 3003);
}

#[test]
fn a_wrong_token_ends_the_link_for_good() {
    let mut desk = Desk::new();
    desk.hear(json!({"type": "error", "content": {"code": 5002}}));
    assert!(matches!(desk.out.parting(), Some(Disconnect::GiveUp { .. })));
}

#[test]
fn refused_token_is_known_by_its_name() {
    let mut desk = Desk::new();
    desk.hear(json!({"type": "error", "content": {"error": "TOKEN_EXPIRED", "message": "old"}}));
    assert!(matches!(desk.out.parting(), Some(Disconnect::GiveUp { .. })));
}

#[test]
fn binary_frame_with_json_is_read() {
    let mut desk = Desk::new();
    let mut coder = desk.line(1);
    desk.send(1, shake("coder"));
    let frame = json!({"type": "message", "agent": "coder"}).to_string();
    desk.liaison.on_binary(frame.as_bytes(), Instant::now(), &mut desk.out);
    assert_eq!(coder.try_recv().unwrap()["agent"], "coder");
    desk.liaison.on_binary(&[0xff], Instant::now(), &mut desk.out);
    assert!(coder.try_recv().is_err() && desk.out.parting().is_none());
}

#[test]
fn gateway_is_told_why_the_link_closes() {
    let mut desk = Desk::new();
    for (code, reason) in [(1001, "shutdown"), (1008, "timeout"), (1002, "error")] {
        let parting = Disconnect::Close { code, reason: String::new() };
        desk.liaison.on_closing(&parting, &mut desk.out);
        let sent = desk.sent();
        assert_eq!((&sent[0]["type"], &sent[0]["content"]["reason"]), (&json!("disconnect"), &json!(reason)));
    }
}

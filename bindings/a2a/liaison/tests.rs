//! What a link makes of the frames of a gateway elsewhere.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::outlet::{Delivery, outlet};
use super::*;

struct Desk {
    liaison: Liaison,
    out: Out,
}

impl Desk {
    fn new() -> Self {
        let mut desk = Self { liaison: Liaison::new("far".to_owned(), None), out: Out::default() };
        desk.liaison.on_open(Instant::now(), &mut desk.out);
        desk.out.take_texts();
        desk
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
fn a_frame_is_for_the_agent_that_it_names_and_else_for_whoever_asked() {
    let mut desk = Desk::new();
    let mut coder = desk.line(1);
    let mut client = desk.line(2);
    desk.send(1, shake("coder"));
    desk.send(2, question("coder", "c"));
    desk.hear(question("coder", "c"));
    assert_eq!(coder.try_recv().unwrap()["agent"], "coder");
    desk.hear(json!({"type": "message", "agent": "client-9", "metadata": {"correlationId": "c"}}));
    assert_eq!(client.try_recv().unwrap()["agent"], "client-9");
    desk.hear(json!({"type": "response", "correlationId": "c"}));
    assert!(client.try_recv().is_err(), "it was answered already");
    assert_eq!(coder.try_recv().unwrap()["type"], "response", "an agent may know more");
}

#[test]
fn echoes_go_back_in_the_order_of_the_pings() {
    let mut desk = Desk::new();
    let (mut first, mut second) = (desk.line(1), desk.line(2));
    desk.send(2, json!({"type": "ping"}));
    desk.send(1, json!({"type": "ping"}));
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
    desk.out.take_texts();
    desk.liaison.on_open(Instant::now(), &mut desk.out);
    let told = desk.out.take_texts();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told.iter().any(|text| text.contains("coder")) && told.iter().any(|text| text.contains("subscribe"))
    );
}

#[test]
fn whoever_waits_hears_that_the_connection_was_lost() {
    let mut desk = Desk::new();
    let mut client = desk.line(1);
    desk.send(1, question("coder", "c"));
    desk.send(1, json!({"type": "ping"}));
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
    let told = desk.out.take_texts();
    assert!(told[0].contains("offline") && told[0].contains("coder"), "{told:?}");
}

#[test]
fn a_gateway_that_owes_too_many_answers_is_asked_no_more() {
    let mut desk = Desk::new();
    let mut client = desk.line(1);
    for number in 0..ASKED_MAX {
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
    assert!(matches!(desk.out.parting(), Some(crate::peering::Parting::GiveUp { .. })));
}

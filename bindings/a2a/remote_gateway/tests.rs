//! A link with scripted frames of a remote gateway.

use tokio_util::sync::CancellationToken;

use super::super::delivery::{Delivery, delivery_channel};
use super::in_flight::IN_FLIGHT_MAX;
use super::*;
use crate::concurrency::ByteReceiver;

struct TestLink {
    remote: RemoteGateway,
    out: Outbox,
}

impl TestLink {
    fn new() -> Self {
        let mut link = Self { remote: RemoteGateway::new("far".to_owned(), None), out: Outbox::default() };
        link.open();
        link.out.take_texts();
        link
    }

    /// Connects to a gateway that supports `ping`.
    fn open(&mut self) {
        self.remote.on_open(Instant::now(), &mut self.out);
        assert!(!self.remote.is_ready());
        self.receive(
            json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "client-9"}}),
        );
        assert!(!self.remote.is_ready());
        self.receive(json!({"type": "pong", "correlationId": "probe-ping"}));
        assert!(self.remote.is_ready());
    }

    /// Returns the frames that were sent, without the fences.
    fn take_sent(&mut self) -> Vec<Value> {
        let texts = self.out.take_texts().into_iter();
        let frames = texts.map(|text| serde_json::from_str(&text).unwrap());
        frames.filter(|frame: &Value| frame["type"] != "ping").collect()
    }

    fn add_client(&mut self, id: u64) -> Inbox {
        let (deliveries, deliveries_rx) = delivery_channel(CancellationToken::new());
        self.command(LinkCommand::Open { id: LinkClientId(id), deliveries });
        Inbox(deliveries_rx)
    }

    fn command(&mut self, command: LinkCommand) {
        self.remote.on_command(command, Instant::now(), &mut self.out);
    }

    fn send(&mut self, id: u64, frame: Value) {
        let Value::Object(fields) = frame else { panic!("{frame}") };
        self.command(LinkCommand::Send { id: LinkClientId(id), fields, wants_pong: false });
    }

    fn send_with_pong(&mut self, id: u64, frame: Value) {
        let Value::Object(fields) = frame else { panic!("{frame}") };
        self.command(LinkCommand::Send { id: LinkClientId(id), fields, wants_pong: true });
    }

    fn receive(&mut self, frame: Value) {
        self.remote.on_text(&frame.to_string(), Instant::now(), &mut self.out);
    }
}

/// The frames that a client gets.
struct Inbox(ByteReceiver<Delivery>);

impl Inbox {
    fn try_recv(&mut self) -> Option<Value> {
        self.0.try_recv().map(|delivery| match delivery {
            Delivery::Frame(frame) => frame,
            Delivery::Close { code, .. } => panic!("closed with {code}"),
        })
    }
}

fn handshake_from(agent: &str) -> Value {
    json!({"type": "handshake", "from": agent, "content": {"action": "advertise"}})
}

fn request_to(agent: &str, id: &str) -> Value {
    json!({"type": "message", "agent": agent, "content": {}, "metadata": {"correlationId": id}})
}

#[test]
fn reply_goes_to_the_requester_whatever_agent_it_names() {
    let mut link = TestLink::new();
    let mut coder = link.add_client(1);
    let mut client = link.add_client(2);
    link.send(1, handshake_from("coder"));
    link.send(2, request_to("coder", "c"));
    link.receive(request_to("coder", "c"));
    assert_eq!(coder.try_recv().unwrap()["agent"], "coder");
    let mut reply = request_to("coder", "c");
    reply["metadata"]["parentId"] = json!("m");
    link.receive(reply.clone());
    assert_eq!(client.try_recv().unwrap()["metadata"]["parentId"], "m");
    assert!(coder.try_recv().is_none());
    link.receive(reply);
    assert_eq!(coder.try_recv().unwrap()["agent"], "coder", "the second is an ordinary message");
    link.receive(json!({"type": "message", "agent": "client-9", "metadata": {"correlationId": "c"}}));
    assert!(client.try_recv().is_none() && coder.try_recv().is_none(), "not an agent of this link");
}

#[test]
fn anonymous_client_sends_with_the_id_of_the_connection() {
    let mut link = TestLink::new();
    let (_coder, _client) = (link.add_client(1), link.add_client(2));
    link.send(1, handshake_from("coder"));
    link.send(2, request_to("coder", "c"));
    let mut own = request_to("x", "d");
    own["from"] = json!("coder");
    link.send(1, own);
    let senders: Vec<Value> = link.take_sent().iter().map(|frame| frame["from"].clone()).collect();
    assert_eq!(senders, [json!("coder"), json!("client-9"), json!("coder")]);
}

#[test]
fn message_without_receiver_needs_a_single_agent() {
    let mut link = TestLink::new();
    let (mut coder, mut other) = (link.add_client(1), link.add_client(2));
    link.send(1, handshake_from("coder"));
    link.receive(json!({"type": "message", "content": {}}));
    assert!(coder.try_recv().is_some());
    link.send(2, handshake_from("dreamer"));
    link.receive(json!({"type": "message", "content": {}}));
    assert!(coder.try_recv().is_none() && other.try_recv().is_none());
}

#[test]
fn fences_are_acknowledged_in_order() {
    let mut link = TestLink::new();
    let (mut first, mut second) = (link.add_client(1), link.add_client(2));
    link.send_with_pong(2, json!({"type": "message", "agent": "x"}));
    link.send_with_pong(1, json!({"type": "message", "agent": "x"}));
    link.receive(json!({"type": "error", "content": {"code": 3001}}));
    link.receive(json!({"type": "pong"}));
    assert_eq!(second.try_recv().unwrap()["type"], "error");
    assert_eq!(second.try_recv().unwrap()["type"], "pong");
    link.receive(json!({"type": "pong"}));
    assert_eq!(first.try_recv().unwrap()["type"], "pong");
}

#[test]
fn decision_goes_to_the_proposer_and_all_agents() {
    let mut link = TestLink::new();
    let (mut alpha, mut proposer, mut other) = (link.add_client(1), link.add_client(2), link.add_client(3));
    link.send(1, handshake_from("alpha"));
    link.send(2, json!({"type": "proposal", "content": {}, "metadata": {"correlationId": "p"}}));
    link.receive(json!({"type": "decision", "content": {"proposalId": "p"}}));
    assert!(alpha.try_recv().is_some() && proposer.try_recv().is_some());
    assert!(other.try_recv().is_none());
}

#[test]
fn reconnect_registers_agents_and_subscriptions_again() {
    let mut link = TestLink::new();
    let _coder = link.add_client(1);
    let gone = link.add_client(2);
    link.send(1, handshake_from("coder"));
    link.send(1, json!({"type": "subscribe", "content": {"channel": "agent:status"}}));
    link.send(2, handshake_from("dreamer"));
    drop(gone);
    link.remote.on_end(Instant::now());
    assert!(!link.remote.is_ready());
    link.take_sent();
    link.open();
    let sent = link.take_sent();
    assert_eq!(sent.len(), 4, "{sent:?}");
    assert!(sent.iter().any(|frame| frame["from"] == "coder"));
    assert!(sent.iter().any(|frame| frame["type"] == "subscribe"));
}

#[test]
fn reconnect_registers_in_the_order_of_the_clients() {
    let mut link = TestLink::new();
    let names = |id: u64| [format!("coder-{id}"), format!("writer-{id}")];
    let _inboxes: Vec<Inbox> = (1..=16).map(|id| link.add_client(id)).collect();
    for id in (1..=16).rev() {
        link.send(id, json!({"type": "subscribe", "content": {"channel": format!("event:{id}")}}));
        names(id).iter().rev().for_each(|name| link.send(id, handshake_from(name)));
    }
    link.remote.on_end(Instant::now());
    link.take_sent();
    link.open();
    let sent = link.take_sent();
    let registered: Vec<&str> = sent
        .iter()
        .filter_map(|frame| frame["from"].as_str().or(frame["content"]["channel"].as_str()))
        .collect();
    let expected: Vec<String> =
        (1..=16).flat_map(|id| names(id).into_iter().chain([format!("event:{id}")])).collect();
    assert_eq!(registered, expected);
}

#[test]
fn pending_requests_fail_in_the_order_of_sending() {
    let mut link = TestLink::new();
    let mut client = link.add_client(1);
    let ids: Vec<String> = (0..16).rev().map(|number| number.to_string()).collect();
    ids.iter().for_each(|id| link.send(1, request_to("coder", id)));
    link.remote.on_end(Instant::now());
    let failed: Vec<String> = std::iter::from_fn(|| client.try_recv())
        .map(|frame| frame["correlationId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(failed, ids);
}

#[test]
fn pending_requests_fail_when_the_connection_is_lost() {
    let mut link = TestLink::new();
    let mut client = link.add_client(1);
    link.send(1, request_to("coder", "c"));
    link.send_with_pong(1, json!({"type": "message", "agent": "x"}));
    link.remote.on_end(Instant::now());
    let lost = client.try_recv().unwrap();
    assert_eq!((&lost["content"]["code"], &lost["correlationId"]), (&json!(1003), &json!("c")));
    assert_eq!(client.try_recv().unwrap()["content"]["code"], 1003);
    assert_eq!(client.try_recv().unwrap()["type"], "pong");
}

#[test]
fn closed_client_takes_its_agents_offline() {
    let mut link = TestLink::new();
    let _coder = link.add_client(1);
    link.send(1, handshake_from("coder"));
    link.out.take_texts();
    link.command(LinkCommand::Close { id: LinkClientId(1) });
    let sent = link.take_sent();
    assert_eq!((&sent[0]["content"]["status"], &sent[0]["from"]), (&json!("offline"), &json!("coder")));
}

#[test]
fn request_past_the_in_flight_limit_is_refused() {
    let mut link = TestLink::new();
    let mut client = link.add_client(1);
    for number in 0..IN_FLIGHT_MAX / 2 {
        link.send(1, request_to("coder", &number.to_string()));
    }
    assert!(client.try_recv().is_none());
    link.send(1, request_to("coder", "late"));
    assert_eq!(client.try_recv().unwrap()["content"]["code"], 3003);
}

#[test]
fn rejected_token_gives_up_the_link() {
    let mut link = TestLink::new();
    link.receive(json!({"type": "error", "content": {"code": 5002}}));
    assert!(matches!(link.out.disconnect(), Some(Disconnect::GiveUp { .. })));
}

#[test]
fn rejected_token_is_recognised_by_its_error_name() {
    let mut link = TestLink::new();
    link.receive(json!({"type": "error", "content": {"error": "TOKEN_EXPIRED", "message": "old"}}));
    assert!(matches!(link.out.disconnect(), Some(Disconnect::GiveUp { .. })));
}

#[test]
fn binary_frame_with_json_is_read() {
    let mut link = TestLink::new();
    let mut coder = link.add_client(1);
    link.send(1, handshake_from("coder"));
    let frame = json!({"type": "message", "agent": "coder"}).to_string();
    link.remote.on_binary(frame.as_bytes(), Instant::now(), &mut link.out);
    assert_eq!(coder.try_recv().unwrap()["agent"], "coder");
    link.remote.on_binary(&[0xff], Instant::now(), &mut link.out);
    assert!(coder.try_recv().is_none() && link.out.disconnect().is_none());
}

#[test]
fn disconnect_frame_has_the_reason() {
    let mut link = TestLink::new();
    for (code, reason) in [(1001, "shutdown"), (1008, "timeout"), (1002, "error")] {
        let disconnect = Disconnect::Close { code, reason: String::new() };
        link.remote.on_closing(&disconnect, &mut link.out);
        let sent = link.take_sent();
        assert_eq!((&sent[0]["type"], &sent[0]["content"]["reason"]), (&json!("disconnect"), &json!(reason)));
    }
}

//! Random sequences of frames: replies and messages reach only their receivers, and odd frames do
//! no harm.

use std::collections::HashMap;

use proptest::prelude::*;

use super::super::super::wire::FrameType;
use super::*;

/// An action of one of five connections; two of them may be agents.
#[derive(Debug, Clone)]
enum Action {
    Bind { id: u64, agent: usize },
    Request { id: u64, agent: usize, correlation: u8 },
    Reply { id: u64, correlation: u8 },
    Status { id: u64, busy: bool },
    End { id: u64 },
    Junk { id: u64, text: String },
}

const AGENTS: [&str; 2] = ["coder", "dreamer"];

fn action() -> impl Strategy<Value = Action> {
    let id = 1..6_u64;
    prop_oneof![
        (id.clone(), 0..2_usize).prop_map(|(id, agent)| Action::Bind { id, agent }),
        (id.clone(), 0..2_usize, 0..3_u8).prop_map(|(id, agent, correlation)| Action::Request {
            id,
            agent,
            correlation
        }),
        (id.clone(), 0..3_u8).prop_map(|(id, correlation)| Action::Reply { id, correlation }),
        (id.clone(), any::<bool>()).prop_map(|(id, busy)| Action::Status { id, busy }),
        id.clone().prop_map(|id| Action::End { id }),
        (id, "[{}\\[\\]\"a-z:,0-9]{0,30}").prop_map(|(id, text)| Action::Junk { id, text }),
    ]
}

fn apply(gateway: &mut TestGateway, action: &Action) -> Vec<Output> {
    match action {
        Action::Bind { id, agent } => gateway.send(
            *id,
            json!({"type": "handshake", "from": AGENTS[*agent], "content": {"action": "advertise"}}),
        ),
        Action::Request { id, agent, correlation } => {
            gateway.send(*id, request_to(AGENTS[*agent], &correlation.to_string()))
        }
        Action::Reply { id, correlation } => {
            gateway.send(*id, reply_message(&correlation.to_string(), "done"))
        }
        Action::Status { id, busy } => {
            let status = if *busy { "busy" } else { "online" };
            gateway.send(*id, json!({"type": "status", "content": {"status": status}}))
        }
        Action::End { id } => {
            let outputs = gateway.end(*id);
            gateway.open(*id);
            outputs
        }
        Action::Junk { id, text } => {
            gateway.run_step(|gateway, step| gateway.on_text(ConnectionId(*id), text, step))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// A connection gets at most one reply per request and none without a request, and a message
    /// reaches only the connection that has the agent's name.
    #[test]
    fn frames_reach_only_their_receivers(actions in proptest::collection::vec(action(), 0..60)) {
        let mut gateway = TestGateway::new(settings());
        (1..6).for_each(|id| gateway.open(id));
        let mut pending: HashMap<(u64, String), usize> = HashMap::new();
        for action in &actions {
            if let Action::Request { id, correlation, .. } = action {
                *pending.entry((*id, correlation.to_string())).or_default() += 1;
            }
            for outputs in apply(&mut gateway, action) {
                let Output::Frame(to, frame) = outputs else { continue };
                let content = &frame["content"];
                let is_reply = content["content"] == "done" || content["code"].is_u64();
                if let (true, Some(id)) = (is_reply, frame["correlationId"].as_str()) {
                    // The error for a reply without a request has the same correlation, but is not
                    // a reply.
                    if matches!(action, Action::Reply { id, .. } if *id == to) && content["code"].is_u64() {
                        continue;
                    }
                    let left = pending.get_mut(&(to, id.to_owned()));
                    prop_assert!(left.as_ref().is_some_and(|left| **left > 0), "{to} outputs {frame}");
                    if let Some(left) = left { *left -= 1 }
                } else if frame["type"] == "message" {
                    let agent = frame["agent"].as_str().unwrap_or_default();
                    let correlation = frame["correlationId"].as_str().unwrap_or_default().to_owned();
                    let connection = gateway.machine.registry.connection(agent);
                    // A name without a connection still leads to the requester that used it.
                    let is_requester = connection.is_none() && pending.contains_key(&(to, correlation));
                    prop_assert!(is_requester || connection == Some(ConnectionId(to)), "{to} outputs {frame}");
                }
            }
            if let Action::End { id } = action {
                pending.retain(|(requester, _), _| requester != id);
            }
        }
    }
}

/// Unexpected values for fields.
const ODD: [&str; 12] = [
    "null",
    "true",
    "0",
    "-1",
    "1e308",
    "\"\"",
    "\"coder\"",
    "\"../..\"",
    "[]",
    "[[]]",
    "{}",
    "{\"role\":\"user\",\"content\":\"x\",\"action\":\"list\",\"service\":\"session\",\"agent\":\"coder\"}",
];

const FIELDS: [&str; 10] =
    ["id", "agent", "from", "sessionId", "timestamp", "metadata", "content", "error", "event", "agentId"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After any value in any field, the gateway still replies to a ping.
    #[test]
    fn odd_frames_do_no_harm(
        frames in proptest::collection::vec(
            (0..21_usize, proptest::collection::vec((0..10_usize, 0..12_usize), 0..5)), 1..20,
        ),
    ) {
        let mut gateway = TestGateway::new(settings());
        gateway.add_agent(2, "coder");
        for (kind, fields) in frames {
            gateway.open(1);
            let mut frame = json!({"type": FrameType::ALL[kind].name()});
            for (field, odd) in fields {
                frame[FIELDS[field]] = serde_json::from_str(ODD[odd]).unwrap();
            }
            gateway.send(1, frame);
            gateway.end(1);
            prop_assert_eq!(summary(&gateway.send(2, json!({"type": "ping"}))), ["2 pong"]);
        }
    }
}

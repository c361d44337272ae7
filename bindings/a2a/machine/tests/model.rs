//! Random conversations: whatever clients send, the gateway's promises hold.

use std::collections::HashMap;

use proptest::prelude::*;

use super::super::super::wire::Type;
use super::*;

/// One step of a conversation between five connections and two agents.
#[derive(Debug, Clone)]
enum Step {
    Bind { id: u64, agent: usize },
    Ask { id: u64, agent: usize, correlation: u8 },
    Answer { id: u64, correlation: u8 },
    Status { id: u64, busy: bool },
    End { id: u64 },
    Junk { id: u64, text: String },
}

const AGENTS: [&str; 2] = ["coder", "dreamer"];

fn step() -> impl Strategy<Value = Step> {
    let id = 1..6_u64;
    prop_oneof![
        (id.clone(), 0..2_usize).prop_map(|(id, agent)| Step::Bind { id, agent }),
        (id.clone(), 0..2_usize, 0..3_u8).prop_map(|(id, agent, correlation)| Step::Ask {
            id,
            agent,
            correlation
        }),
        (id.clone(), 0..3_u8).prop_map(|(id, correlation)| Step::Answer { id, correlation }),
        (id.clone(), any::<bool>()).prop_map(|(id, busy)| Step::Status { id, busy }),
        id.clone().prop_map(|id| Step::End { id }),
        (id, "[{}\\[\\]\"a-z:,0-9]{0,30}").prop_map(|(id, text)| Step::Junk { id, text }),
    ]
}

fn apply(world: &mut World, step: &Step) -> Vec<Got> {
    match step {
        Step::Bind { id, agent } => world.send(
            *id,
            json!({"type": "handshake", "from": AGENTS[*agent], "content": {"action": "advertise"}}),
        ),
        Step::Ask { id, agent, correlation } => {
            world.send(*id, ask(AGENTS[*agent], &correlation.to_string()))
        }
        Step::Answer { id, correlation } => world.send(*id, answer(&correlation.to_string(), "done")),
        Step::Status { id, busy } => {
            let status = if *busy { "busy" } else { "online" };
            world.send(*id, json!({"type": "status", "content": {"status": status}}))
        }
        Step::End { id } => {
            let got = world.end(*id);
            world.open(*id);
            got
        }
        Step::Junk { id, text } => world.turn(|gateway, turn| gateway.on_text(ConnectionId(*id), text, turn)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// No client gets more answers than it asked questions, nobody who did not ask gets one, and a message reaches
    /// only the connection that bears the agent's name.
    #[test]
    fn nobody_gets_what_is_not_theirs(steps in proptest::collection::vec(step(), 0..60)) {
        let mut world = World::new(settings());
        (1..6).for_each(|id| world.open(id));
        let mut owed: HashMap<(u64, String), usize> = HashMap::new();
        for step in &steps {
            if let Step::Ask { id, correlation, .. } = step {
                *owed.entry((*id, correlation.to_string())).or_default() += 1;
            }
            for got in apply(&mut world, step) {
                let Got::Frame(to, frame) = got else { continue };
                let content = &frame["content"];
                let is_answer = content["content"] == "done" || content["code"].is_u64();
                if let (true, Some(id)) = (is_answer, frame["correlationId"].as_str()) {
                    // An agent that answers nothing is told so under the same id; that is no answer to a question.
                    if matches!(step, Step::Answer { id, .. } if *id == to) && content["code"].is_u64() {
                        continue;
                    }
                    let left = owed.get_mut(&(to, id.to_owned()));
                    prop_assert!(left.as_ref().is_some_and(|left| **left > 0), "{to} got {frame}");
                    if let Some(left) = left { *left -= 1 }
                } else if frame["type"] == "message" {
                    let agent = frame["agent"].as_str().unwrap_or_default();
                    let correlation = frame["correlationId"].as_str().unwrap_or_default().to_owned();
                    let seat = world.gateway.registry.seat(agent);
                    // A name that nobody bears any more still means whoever asked under it.
                    let asked = seat.is_none() && owed.contains_key(&(to, correlation));
                    prop_assert!(asked || seat == Some(ConnectionId(to)), "{to} got {frame}");
                }
            }
            if let Step::End { id } = step {
                owed.retain(|(requester, _), _| requester != id);
            }
        }
    }
}

/// Values that somebody may put where others belong.
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

    /// Whatever stands in whatever field, the sender gets an answer or nothing, and the next ping is echoed.
    #[test]
    fn odd_frames_do_no_harm(
        frames in proptest::collection::vec(
            (0..21_usize, proptest::collection::vec((0..10_usize, 0..12_usize), 0..5)), 1..20,
        ),
    ) {
        let mut world = World::new(settings());
        world.agent(2, "coder");
        for (kind, fields) in frames {
            world.open(1);
            let mut frame = json!({"type": Type::ALL[kind].name()});
            for (field, odd) in fields {
                frame[FIELDS[field]] = serde_json::from_str(ODD[odd]).unwrap();
            }
            world.send(1, frame);
            world.end(1);
            prop_assert_eq!(summary(&world.send(2, json!({"type": "ping"}))), ["2 pong"]);
        }
    }
}

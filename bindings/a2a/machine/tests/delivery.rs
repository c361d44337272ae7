//! Messages, answers, what waits, and what is kept.

use super::super::super::correlation::{ANSWER_MS_MAX, ANSWERS_OWED_MAX};
use super::super::super::parked::PARKED_MAX;
use super::super::routing::{LETTER_WAITING_BYTES_MAX, LETTERS_WAITING_MAX};
use super::*;

fn get(agent: &str, session_id: &str) -> Value {
    json!({"type": "request", "content": {
        "service": "session", "action": "get", "agent": agent, "sessionId": session_id
    }})
}

fn with_metadata(mut frame: Value, metadata: Value) -> Value {
    frame["metadata"] = metadata;
    frame
}

#[test]
fn an_answer_goes_back_to_whoever_asked() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    let mut question = ask("coder", "c");
    question["sessionId"] = json!("s");
    question["zzz"] = json!(1);
    let delivered = only(world.send(1, question));
    assert_eq!(delivered["from"], "client-1");
    assert_eq!(delivered["zzz"], 1, "what we do not know travels on");
    assert!(delivered["id"].is_string() && delivered["timestamp"].is_u64());
    let got = world.send(2, answer("c", "done"));
    let [Got::Frame(1, reply)] = got.as_slice() else { panic!("{got:?}") };
    assert_eq!((&reply["from"], &reply["content"]["content"]), (&json!("coder"), &json!("done")));
    assert_eq!((&reply["metadata"]["correlationId"], &reply["correlationId"]), (&json!("c"), &json!("c")));
    assert_eq!(reply["sessionId"], "s");
    assert_eq!(summary(&world.send(2, answer("c", "again"))), ["2 error 2002"], "nobody waits any more");
}

#[test]
fn what_requires_a_response_without_a_correlation_is_correlated_by_its_id() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    let mut question = with_metadata(say("coder", "?"), json!({"requiresResponse": true}));
    question["id"] = json!("m1");
    assert_eq!(only(world.send(1, question))["metadata"]["correlationId"], "m1");
    assert_eq!(summary(&world.send(2, answer("m1", "yes"))), ["1 message"]);
}

#[test]
fn a_response_must_answer_a_request() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    let request = json!({
        "type": "request", "agent": "coder", "content": {"service": "build"}, "metadata": {"correlationId": "r"}
    });
    assert_eq!(summary(&world.send(1, request)), ["2 request"]);
    let response =
        |metadata: Value| json!({"type": "response", "content": {"result": 1}, "metadata": metadata});
    assert_eq!(summary(&world.send(2, response(json!({})))), ["2 error 2002"]);
    assert_eq!(summary(&world.send(2, response(json!({"correlationId": "x"})))), ["2 error 2005"]);
    assert_eq!(summary(&world.send(1, response(json!({"correlationId": "r"})))), ["1 error 2005"]);
    assert_eq!(summary(&world.send(2, response(json!({"correlationId": "r"})))), ["1 response"]);
}

#[test]
fn an_agent_may_answer_with_an_error_and_other_errors_go_nowhere() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    world.send(1, ask("coder", "c"));
    let error = |id: &str| json!({"type": "error", "error": "X", "content": {"error": "X"}, "metadata": {"correlationId": id}});
    assert_eq!(world.send(2, error("other")), []);
    assert_eq!(summary(&world.send(2, error("c"))), ["1 error"]);
}

#[test]
fn those_who_wait_are_told_when_the_agent_goes_or_takes_too_long() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    world.send(1, ask("coder", "a"));
    let got = world.end(2);
    assert_eq!(summary(&got), ["1 error 3002"]);
    assert_eq!(only(got)["metadata"]["correlationId"], "a");
    world.agent(3, "coder");
    world.send(1, ask("coder", "b"));
    assert_eq!(world.later(ANSWER_MS_MAX - 1), []);
    assert_eq!(summary(&world.later(1000)), ["1 error 3004"]);
}

#[test]
fn an_agent_that_owes_too_many_answers_is_busy() {
    let mut world = World::new(Settings { rate: Rate { per_second: 1e9, burst: 1e9 }, ..settings() });
    world.agent(2, "coder");
    world.open(1);
    for number in 0..ANSWERS_OWED_MAX {
        assert_eq!(summary(&world.send(1, ask("coder", &number.to_string()))), ["2 message"]);
    }
    assert_eq!(summary(&world.send(1, ask("coder", "late"))), ["1 error 3003"]);
    assert_eq!(summary(&world.send(1, say("coder", "no question"))), ["2 message"]);
}

#[test]
fn a_client_without_a_name_is_reached_by_its_id() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    assert_eq!(summary(&world.send(2, say("client-1", "by the way"))), ["1 message"]);
    assert_eq!(summary(&world.send(2, say("client-9", "hello?"))), ["2 error 3001"]);
}

#[test]
fn a_broadcast_reaches_all_agents_but_its_sender() {
    let mut world = World::new(settings());
    for (id, name) in [(1, "alpha"), (2, "beta"), (3, "coder")] {
        world.agent(id, name);
    }
    world.open(4);
    let got = world.send(1, json!({"type": "broadcast", "content": {"message": "hi"}}));
    assert_eq!(summary(&got), ["2 broadcast", "3 broadcast", "1 response"]);
    let Got::Frame(_, ack) = &got[2] else { panic!("{got:?}") };
    assert_eq!(ack["content"]["result"], json!({"delivered": 2, "agents": ["beta", "coder"]}));
    let got = world.send(4, json!({"type": "broadcast", "content": {"message": "hi"}}));
    assert_eq!(summary(&got), ["1 broadcast", "2 broadcast", "3 broadcast", "4 response"]);
}

#[test]
fn events_of_agents_reach_those_who_listen() {
    let mut world = World::new(settings());
    world.agent(1, "coder");
    world.open(2);
    world.send(2, json!({"type": "subscribe", "content": {"channel": "agent:events"}}));
    let event = json!({"type": "event", "event": "built", "content": {"ok": true}});
    let frame = only(world.send(1, event.clone()));
    assert_eq!((&frame["from"], &frame["event"]), (&json!("coder"), &json!("built")));
    assert_eq!(summary(&world.send(2, event)), ["2 error 5004"]);
}

#[test]
fn a_message_is_kept_even_if_nobody_is_there() {
    let mut world = World::new(settings());
    world.open(1);
    let mut frame = say("examiner", "remember me");
    frame["id"] = json!("m1");
    frame["sessionId"] = json!("s");
    frame["timestamp"] = json!("2024-03-31T00:00:00Z");
    assert_eq!(summary(&world.send(1, frame)), ["1 error 3002"]);
    let result = only(world.send(1, get("examiner", "s")))["content"]["result"].clone();
    assert_eq!(
        result["entries"],
        json!([{
            "timestamp": 1_711_843_200_000_u64, "role": "user", "content": "remember me",
            "sessionId": "s", "id": "m1"
        }])
    );
}

#[test]
fn question_and_answer_stand_in_one_session() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    let mut question = ask("coder", "c");
    question["sessionId"] = json!("s");
    world.send(1, question);
    world.send(2, answer("c", "done"));
    let result = only(world.send(1, get("coder", "s")))["content"]["result"].clone();
    let roles: Vec<_> = result["entries"].as_array().unwrap().iter().map(|entry| &entry["role"]).collect();
    assert_eq!(roles, ["user", "assistant"]);
}

#[test]
fn what_cannot_be_kept_is_not_delivered() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    let mut frame = say("coder", "x");
    frame["sessionId"] = json!("../../etc");
    assert_eq!(summary(&world.send(1, frame)), ["1 error 2005"]);
    world.send(1, say("coder", "x"));
    let archive = json!({"type": "request", "content": {
        "service": "session", "action": "archive", "agent": "coder", "sessionId": "main"
    }});
    assert_eq!(only(world.send(1, archive))["content"]["result"]["archived"], 1);
    assert_eq!(summary(&world.send(1, say("coder", "x"))), ["1 error 4002"]);
    assert_eq!(summary(&world.send(1, get("coder", "main"))), ["1 error 4002"]);
}

#[test]
fn the_session_service_does_all_that_the_commands_do() {
    let mut world = World::new(settings());
    world.open(1);
    let mut service = |mut content: Value| {
        content["service"] = json!("session");
        only(world.send(1, json!({"type": "request", "content": content})))["content"].clone()
    };
    let created = service(json!({"action": "create", "agent": "coder"}));
    let id = created["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(
        service(json!({"action": "list", "agent": "coder"}))["result"]["sessions"][0]["sessionId"],
        id
    );
    assert_eq!(service(json!({"action": "list"}))["result"]["sessions"][0]["agent"], "coder");
    let of = |action: &str| json!({"action": action, "agent": "coder", "sessionId": id});
    assert_eq!(service(of("get"))["result"]["entries"], json!([]));
    assert_eq!(service(of("commit"))["result"]["committed"], true);
    assert_eq!(service(of("delete"))["result"]["deleted"], true);
    assert_eq!(service(of("get"))["code"], 4001);
    assert_eq!(service(json!({"action": "create", "agent": "../x"}))["code"], 3001);
}

#[test]
fn a_message_that_outlived_its_time_is_not_delivered() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    let aged = |age_ms: u64, now_ms: u64| {
        let mut frame = with_metadata(say("coder", "x"), json!({"ttl": 1}));
        frame["timestamp"] = json!(now_ms - age_ms);
        frame
    };
    let now_ms = world.now_ms;
    assert_eq!(summary(&world.send(1, aged(999, now_ms))), ["2 message"]);
    assert_eq!(summary(&world.send(1, aged(1000, now_ms))), ["1 error 2005"]);
}

#[test]
fn who_asks_for_it_waits_and_the_urgent_go_first() {
    let mut world = World::new(settings());
    world.open(1);
    for (text, priority) in [("l", "low"), ("n", "normal"), ("c", "critical"), ("h", "high")] {
        let frame = with_metadata(say("coder", text), json!({"queue": true, "priority": priority}));
        let status = only(world.send(1, frame));
        assert_eq!(status["content"]["queued"], true);
    }
    world.open(2);
    let got =
        world.send(2, json!({"type": "handshake", "from": "coder", "content": {"action": "advertise"}}));
    let texts: Vec<_> = got
        .iter()
        .filter_map(|got| match got {
            Got::Frame(2, frame) => frame["content"]["content"].as_str(),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["c", "h", "n", "l"]);
}

#[test]
fn what_waits_for_a_busy_agent_is_handed_over_when_it_is_free() {
    let mut world = World::new(settings());
    world.agent(2, "coder");
    world.open(1);
    let status = |status: &str| json!({"type": "status", "content": {"status": status}});
    world.send(2, status("busy"));
    assert_eq!(summary(&world.send(1, ask("coder", "c"))), ["1 error 3003"]);
    let patient = with_metadata(say("coder", "x"), json!({"queue": true, "correlationId": "c", "ttl": 60}));
    assert_eq!(summary(&world.send(1, patient)), ["1 status"]);
    assert_eq!(summary(&world.send(2, status("idle"))), ["2 message"]);
    assert_eq!(summary(&world.send(2, answer("c", "done"))), ["1 message"]);
}

#[test]
fn what_waits_too_long_or_for_nobody_is_dropped() {
    let mut world = World::new(settings());
    world.open(1);
    world.open(3);
    let patient = |ttl| with_metadata(say("coder", "x"), json!({"queue": true, "ttl": ttl}));
    world.send(1, patient(2));
    world.send(3, patient(100));
    assert_eq!(summary(&world.later(2000)), ["1 error 2005"]);
    world.end(3);
    assert_eq!(world.gateway.wake_at_ms(), None, "nothing waits any more");
}

#[test]
fn the_last_place_in_the_queue_is_taken_and_one_more_is_refused() {
    let mut world = World::new(settings());
    world.open(1);
    let patient = with_metadata(say("coder", "x"), json!({"queue": true}));
    for _ in 0..PARKED_MAX {
        assert_eq!(summary(&world.send(1, patient.clone())), ["1 status"]);
    }
    assert_eq!(summary(&world.send(1, patient)), ["1 error 3002"]);
}

#[test]
fn what_waits_is_bounded_over_all_agents_and_in_size() {
    let mut world = World::new(Settings { rate: Rate { per_second: 1e9, burst: 1e9 }, ..settings() });
    world.open(1);
    let patient = |agent: &str, bytes| {
        let mut frame = with_metadata(say(agent, &"x".repeat(bytes)), json!({"queue": true}));
        frame["id"] = json!("m");
        frame
    };
    let mut delivered = patient("coder", 0);
    delivered["from"] = json!("client-1");
    delivered["timestamp"] = json!(world.now_ms);
    let longest = LETTER_WAITING_BYTES_MAX - delivered.to_string().len();
    assert_eq!(summary(&world.send(1, patient("coder", longest))), ["1 status"]);
    assert_eq!(summary(&world.send(1, patient("coder", longest + 1))), ["1 error 3002"]);
    let agents = ["dreamer", "empath", "explorer", "examiner"];
    for number in 1..LETTERS_WAITING_MAX {
        let agent = agents[number % agents.len()];
        assert_eq!(summary(&world.send(1, patient(agent, 1))), ["1 status"], "{number}");
    }
    assert_eq!(summary(&world.send(1, patient("alpha", 1))), ["1 error 3002"]);
}

#[test]
fn the_audit_says_who_and_what_became_of_it_and_no_content() {
    let mut world = World::new(settings());
    world.open(1);
    let mut frame = say("coder", "a secret");
    frame["id"] = json!("m1");
    world.send(1, frame);
    let record = Record {
        client_id: "client-1".to_owned(),
        is_granted: true,
        kind: "message",
        id: Some("m1".to_owned()),
        from: None,
        agent: Some("coder".to_owned()),
        outcome: "AGENT_OFFLINE",
    };
    assert_eq!(world.audit, [record]);
}

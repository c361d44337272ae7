//! Messages, replies, queues and stored sessions.

use super::super::super::correlation::{REPLIES_PER_AGENT_MAX, REPLY_MS_MAX};
use super::super::super::priority_queue::QUEUE_LENGTH_MAX;
use super::super::delivery::{QUEUED_MESSAGE_BYTES_MAX, QUEUED_MESSAGES_MAX};
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
fn reply_goes_back_to_the_requester() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    let mut request = request_to("coder", "c");
    request["sessionId"] = json!("s");
    request["zzz"] = json!(1);
    let delivered = only_frame(gateway.send(1, request));
    assert_eq!(delivered["from"], "client-1");
    assert_eq!(delivered["zzz"], 1, "unknown fields are forwarded");
    assert!(delivered["id"].is_string() && delivered["timestamp"].is_u64());
    let outputs = gateway.send(2, reply_message("c", "done"));
    let [Output::Frame(1, reply)] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!((&reply["from"], &reply["content"]["content"]), (&json!("coder"), &json!("done")));
    assert_eq!((&reply["metadata"]["correlationId"], &reply["correlationId"]), (&json!("c"), &json!("c")));
    assert_eq!(reply["sessionId"], "s");
    assert_eq!(
        summary(&gateway.send(2, reply_message("c", "again"))),
        ["2 error 2002"],
        "the request is completed"
    );
}

#[test]
fn required_response_is_correlated_by_the_message_id() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    let mut request = with_metadata(message_to("coder", "?"), json!({"requiresResponse": true}));
    request["id"] = json!("m1");
    assert_eq!(only_frame(gateway.send(1, request))["metadata"]["correlationId"], "m1");
    assert_eq!(summary(&gateway.send(2, reply_message("m1", "yes"))), ["1 message"]);
}

#[test]
fn response_without_a_pending_request_is_refused() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    let request = json!({
        "type": "request", "agent": "coder", "content": {"service": "build"}, "metadata": {"correlationId": "r"}
    });
    assert_eq!(summary(&gateway.send(1, request)), ["2 request"]);
    let response =
        |metadata: Value| json!({"type": "response", "content": {"result": 1}, "metadata": metadata});
    assert_eq!(summary(&gateway.send(2, response(json!({})))), ["2 error 2002"]);
    assert_eq!(summary(&gateway.send(2, response(json!({"correlationId": "x"})))), ["2 error 2005"]);
    assert_eq!(summary(&gateway.send(1, response(json!({"correlationId": "r"})))), ["1 error 2005"]);
    assert_eq!(summary(&gateway.send(2, response(json!({"correlationId": "r"})))), ["1 response"]);
}

#[test]
fn error_is_forwarded_as_a_reply_only() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    gateway.send(1, request_to("coder", "c"));
    let error = |id: &str| json!({"type": "error", "error": "X", "content": {"error": "X"}, "metadata": {"correlationId": id}});
    assert_eq!(gateway.send(2, error("other")), []);
    assert_eq!(summary(&gateway.send(2, error("c"))), ["1 error"]);
}

#[test]
fn request_fails_when_the_agent_leaves_or_times_out() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    gateway.send(1, request_to("coder", "a"));
    let outputs = gateway.end(2);
    assert_eq!(summary(&outputs), ["1 error 3002"]);
    assert_eq!(only_frame(outputs)["metadata"]["correlationId"], "a");
    gateway.add_agent(3, "coder");
    gateway.send(1, request_to("coder", "b"));
    assert_eq!(gateway.advance(REPLY_MS_MAX - 1), []);
    assert_eq!(summary(&gateway.advance(1000)), ["1 error 3004"]);
}

#[test]
fn request_past_the_pending_limit_is_refused() {
    let mut gateway = TestGateway::new(Settings { rate: Rate { per_second: 1e9, burst: 1e9 }, ..settings() });
    gateway.add_agent(2, "coder");
    gateway.open(1);
    for number in 0..REPLIES_PER_AGENT_MAX {
        assert_eq!(summary(&gateway.send(1, request_to("coder", &number.to_string()))), ["2 message"]);
    }
    assert_eq!(summary(&gateway.send(1, request_to("coder", "late"))), ["1 error 3003"]);
    assert_eq!(summary(&gateway.send(1, message_to("coder", "no reply expected"))), ["2 message"]);
}

#[test]
fn anonymous_client_is_reached_by_its_id() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    assert_eq!(summary(&gateway.send(2, message_to("client-1", "by the way"))), ["1 message"]);
    assert_eq!(summary(&gateway.send(2, message_to("client-9", "hello?"))), ["2 error 3001"]);
}

#[test]
fn broadcast_reaches_all_agents_but_its_sender() {
    let mut gateway = TestGateway::new(settings());
    for (id, name) in [(1, "alpha"), (2, "beta"), (3, "coder")] {
        gateway.add_agent(id, name);
    }
    gateway.open(4);
    let outputs = gateway.send(1, json!({"type": "broadcast", "content": {"message": "hi"}}));
    assert_eq!(summary(&outputs), ["2 broadcast", "3 broadcast", "1 response"]);
    let Output::Frame(_, ack) = &outputs[2] else { panic!("{outputs:?}") };
    assert_eq!(ack["content"]["result"], json!({"delivered": 2, "agents": ["beta", "coder"]}));
    let outputs = gateway.send(4, json!({"type": "broadcast", "content": {"message": "hi"}}));
    assert_eq!(summary(&outputs), ["1 broadcast", "2 broadcast", "3 broadcast", "4 response"]);
}

#[test]
fn events_reach_subscribers() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(1, "coder");
    gateway.open(2);
    gateway.send(2, json!({"type": "subscribe", "content": {"channel": "agent:events"}}));
    let event = json!({"type": "event", "event": "built", "content": {"ok": true}});
    let frame = only_frame(gateway.send(1, event.clone()));
    assert_eq!((&frame["from"], &frame["event"]), (&json!("coder"), &json!("built")));
    assert_eq!(summary(&gateway.send(2, event)), ["2 error 5004"]);
}

#[test]
fn message_to_an_offline_agent_is_stored() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let mut frame = message_to("examiner", "remember me");
    frame["id"] = json!("m1");
    frame["sessionId"] = json!("s");
    frame["timestamp"] = json!("2024-03-31T00:00:00Z");
    assert_eq!(summary(&gateway.send(1, frame)), ["1 error 3002"]);
    let result = only_frame(gateway.send(1, get("examiner", "s")))["content"]["result"].clone();
    assert_eq!(
        result["entries"],
        json!([{
            "timestamp": 1_711_843_200_000_u64, "role": "user", "content": "remember me",
            "sessionId": "s", "id": "m1"
        }])
    );
}

#[test]
fn request_and_reply_are_in_one_session() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    let mut request = request_to("coder", "c");
    request["sessionId"] = json!("s");
    gateway.send(1, request);
    gateway.send(2, reply_message("c", "done"));
    let result = only_frame(gateway.send(1, get("coder", "s")))["content"]["result"].clone();
    let roles: Vec<_> = result["entries"].as_array().unwrap().iter().map(|entry| &entry["role"]).collect();
    assert_eq!(roles, ["user", "assistant"]);
}

#[test]
fn message_that_cannot_be_stored_is_not_delivered() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    let mut frame = message_to("coder", "x");
    frame["sessionId"] = json!("../../etc");
    assert_eq!(summary(&gateway.send(1, frame)), ["1 error 2005"]);
    gateway.send(1, message_to("coder", "x"));
    let archive = json!({"type": "request", "content": {
        "service": "session", "action": "archive", "agent": "coder", "sessionId": "main"
    }});
    assert_eq!(only_frame(gateway.send(1, archive))["content"]["result"]["archived"], 1);
    assert_eq!(summary(&gateway.send(1, message_to("coder", "x"))), ["1 error 4002"]);
    assert_eq!(summary(&gateway.send(1, get("coder", "main"))), ["1 error 4002"]);
}

#[test]
fn session_service_creates_lists_commits_and_deletes() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let mut service = |mut content: Value| {
        content["service"] = json!("session");
        only_frame(gateway.send(1, json!({"type": "request", "content": content})))["content"].clone()
    };
    let created = service(json!({"action": "create", "agent": "coder"}));
    let id = created["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(
        service(json!({"action": "list", "agent": "coder"}))["result"]["sessions"][0]["sessionId"],
        id
    );
    assert_eq!(service(json!({"action": "list"}))["result"]["sessions"][0]["agent"], "coder");
    let request = |action: &str| json!({"action": action, "agent": "coder", "sessionId": id});
    assert_eq!(service(request("get"))["result"]["entries"], json!([]));
    assert_eq!(service(request("commit"))["result"]["committed"], true);
    assert_eq!(service(request("delete"))["result"]["deleted"], true);
    assert_eq!(service(request("get"))["code"], 4001);
    assert_eq!(service(json!({"action": "create", "agent": "../x"}))["code"], 3001);
}

#[test]
fn expired_message_is_not_delivered() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    let aged = |age_ms: u64, now_ms: u64| {
        let mut frame = with_metadata(message_to("coder", "x"), json!({"ttl": 1}));
        frame["timestamp"] = json!(now_ms - age_ms);
        frame
    };
    let now_ms = gateway.now_ms;
    assert_eq!(summary(&gateway.send(1, aged(999, now_ms))), ["2 message"]);
    assert_eq!(summary(&gateway.send(1, aged(1000, now_ms))), ["1 error 2005"]);
}

#[test]
fn queued_messages_are_delivered_by_priority() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    for (text, priority) in [("l", "low"), ("n", "normal"), ("c", "critical"), ("h", "high")] {
        let frame = with_metadata(message_to("coder", text), json!({"queue": true, "priority": priority}));
        let status = only_frame(gateway.send(1, frame));
        assert_eq!(status["content"]["queued"], true);
    }
    gateway.open(2);
    let outputs =
        gateway.send(2, json!({"type": "handshake", "from": "coder", "content": {"action": "advertise"}}));
    let texts: Vec<_> = outputs
        .iter()
        .filter_map(|outputs| match outputs {
            Output::Frame(2, frame) => frame["content"]["content"].as_str(),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["c", "h", "n", "l"]);
}

#[test]
fn queued_message_is_delivered_when_the_agent_is_idle() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(2, "coder");
    gateway.open(1);
    let status = |status: &str| json!({"type": "status", "content": {"status": status}});
    gateway.send(2, status("busy"));
    assert_eq!(summary(&gateway.send(1, request_to("coder", "c"))), ["1 error 3003"]);
    let queued =
        with_metadata(message_to("coder", "x"), json!({"queue": true, "correlationId": "c", "ttl": 60}));
    assert_eq!(summary(&gateway.send(1, queued)), ["1 status"]);
    assert_eq!(summary(&gateway.send(2, status("idle"))), ["2 message"]);
    assert_eq!(summary(&gateway.send(2, reply_message("c", "done"))), ["1 message"]);
}

#[test]
fn expired_and_ownerless_queued_messages_are_dropped() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    gateway.open(3);
    let queued = |ttl| with_metadata(message_to("coder", "x"), json!({"queue": true, "ttl": ttl}));
    gateway.send(1, queued(2));
    gateway.send(3, queued(100));
    assert_eq!(summary(&gateway.advance(2000)), ["1 error 2005"]);
    gateway.end(3);
    assert_eq!(gateway.machine.wake_at_ms(), None, "no queued message is left");
}

#[test]
fn queued_messages_expire_in_the_order_of_their_agents() {
    let agents: Vec<String> = (10..26).map(|number| format!("agent-{number}")).collect();
    let configured = agents.iter().map(|agent| (agent.clone(), "tester".to_owned())).collect();
    let mut gateway = TestGateway::new(Settings { agents: configured, ..settings() });
    gateway.open(1);
    for agent in agents.iter().rev() {
        let metadata = json!({"queue": true, "ttl": 2, "correlationId": agent, "requiresResponse": true});
        assert_eq!(summary(&gateway.send(1, with_metadata(message_to(agent, "x"), metadata))), ["1 status"]);
    }
    let expired: Vec<_> = gateway
        .advance(2000)
        .into_iter()
        .map(|output| match output {
            Output::Frame(1, frame) => frame["correlationId"].as_str().unwrap_or_default().to_owned(),
            output => panic!("expected a frame to the sender, got {output:?}"),
        })
        .collect();
    assert_eq!(expired, agents);
}

#[test]
fn message_past_the_queue_limit_is_refused() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let queued = with_metadata(message_to("coder", "x"), json!({"queue": true}));
    for _ in 0..QUEUE_LENGTH_MAX {
        assert_eq!(summary(&gateway.send(1, queued.clone())), ["1 status"]);
    }
    assert_eq!(summary(&gateway.send(1, queued)), ["1 error 3002"]);
}

#[test]
fn queued_messages_are_limited_in_number_and_size() {
    let mut gateway = TestGateway::new(Settings { rate: Rate { per_second: 1e9, burst: 1e9 }, ..settings() });
    gateway.open(1);
    let queued = |agent: &str, bytes| {
        let mut frame = with_metadata(message_to(agent, &"x".repeat(bytes)), json!({"queue": true}));
        frame["id"] = json!("m");
        frame
    };
    let mut delivered = queued("coder", 0);
    delivered["from"] = json!("client-1");
    delivered["timestamp"] = json!(gateway.now_ms);
    let longest = QUEUED_MESSAGE_BYTES_MAX - delivered.to_string().len();
    assert_eq!(summary(&gateway.send(1, queued("coder", longest))), ["1 status"]);
    assert_eq!(summary(&gateway.send(1, queued("coder", longest + 1))), ["1 error 3002"]);
    let agents = ["dreamer", "empath", "explorer", "examiner"];
    for number in 1..QUEUED_MESSAGES_MAX {
        let agent = agents[number % agents.len()];
        assert_eq!(summary(&gateway.send(1, queued(agent, 1))), ["1 status"], "{number}");
    }
    assert_eq!(summary(&gateway.send(1, queued("alpha", 1))), ["1 error 3002"]);
}

#[test]
fn audit_record_has_outcome_and_no_content() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let mut frame = message_to("coder", "a secret");
    frame["id"] = json!("m1");
    gateway.send(1, frame);
    let record = AuditRecord {
        client_id: "client-1".to_owned(),
        is_authenticated: true,
        kind: "message",
        id: Some("m1".to_owned()),
        from: None,
        agent: Some("coder".to_owned()),
        outcome: "AGENT_OFFLINE",
    };
    assert_eq!(gateway.audit, [record]);
}

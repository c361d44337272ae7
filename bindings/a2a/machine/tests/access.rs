//! Authentication, registration, discovery and subscriptions.

use super::super::super::auth::Token;
use super::super::super::registry::ROLE_BYTES_MAX;
use super::super::super::testing::sign_jwt;
use super::*;

fn with_token() -> TestGateway {
    TestGateway::new(Settings { token: Some(Token::new("secret-token")), ..settings() })
}

fn handshake(from: Option<&str>) -> Value {
    let mut frame = json!({"type": "handshake", "content": {"action": "advertise"}});
    if let Some(from) = from {
        frame["from"] = json!(from);
    }
    frame
}

fn auth(token: &str) -> Value {
    json!({"type": "auth", "content": {"token": token}})
}

#[test]
fn handshake_is_acknowledged_with_all_agents() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let frame = only_frame(gateway.send(1, handshake(None)));
    assert_eq!(frame["content"]["clientId"], "client-1");
    assert_eq!(frame["content"]["protocolVersion"], "1.0.0");
    assert_eq!(frame["content"]["availableAgents"].as_array().unwrap().len(), 12);
}

#[test]
fn unauthenticated_connection_may_send_few_types() {
    let mut gateway = with_token();
    gateway.open(1);
    assert_eq!(summary(&gateway.send(1, handshake(None))), ["1 handshake"]);
    assert_eq!(summary(&gateway.send(1, json!({"type": "ping"}))), ["1 pong"]);
    assert_eq!(summary(&gateway.send(1, json!({"type": "discovery", "content": {}}))), ["1 error 5001"]);
    assert_eq!(summary(&gateway.send(1, auth("secret-token"))), ["1 auth-response"]);
    assert_eq!(summary(&gateway.send(1, json!({"type": "discovery", "content": {}}))), ["1 error 2002"]);
}

#[test]
fn invalid_token_closes_the_connection() {
    let mut gateway = with_token();
    gateway.open(1);
    assert_eq!(summary(&gateway.send(1, auth("wrong"))), ["1 error 5002", "1 closed 4001"]);
    assert_eq!(gateway.send(1, json!({"type": "ping"})), [], "the connection is closed");
    let client = ClientInfo { token: Some("wrong".to_owned()), ..ClientInfo::default() };
    assert_eq!(summary(&gateway.connect(2, client)), ["2 error 5002", "2 closed 4001"]);
}

fn sign(claims: &Value) -> String {
    sign_jwt("secret-token", &json!({"alg": "HS256"}), claims)
}

#[test]
fn expired_token_closes_the_connection() {
    let mut gateway = with_token();
    let exp = gateway.now_ms / 1000 + 2;
    gateway.open(1);
    assert_eq!(summary(&gateway.send(1, auth(&sign(&json!({"exp": exp}))))), ["1 auth-response"]);
    assert_eq!(gateway.machine.wake_at_ms(), Some(exp * 1000));
    assert_eq!(gateway.advance(1999), []);
    assert_eq!(summary(&gateway.advance(1)), ["1 error 5003", "1 closed 4001"]);
    assert_eq!(gateway.machine.wake_at_ms(), None);
}

#[test]
fn frame_after_expiry_is_refused_before_the_timer() {
    let mut gateway = with_token();
    let exp = gateway.now_ms / 1000 + 2;
    gateway.open(1);
    gateway.send(1, auth(&sign(&json!({"exp": exp}))));
    gateway.now_ms += 2000;
    assert_eq!(summary(&gateway.send(1, json!({"type": "ping"}))), ["1 error 5003", "1 closed 4001"]);
}

#[test]
fn newer_token_of_the_same_client_extends_the_access() {
    let mut gateway = with_token();
    let now = gateway.now_ms / 1000;
    gateway.open(1);
    gateway.send(1, auth(&sign(&json!({"sub": "ada", "exp": now + 2}))));
    let other = auth(&sign(&json!({"sub": "bob", "exp": now + 9})));
    assert_eq!(summary(&gateway.send(1, other)), ["1 error 5004"]);
    let newer = auth(&sign(&json!({"sub": "ada", "exp": now + 4})));
    assert_eq!(summary(&gateway.send(1, newer)), ["1 auth-response"]);
    assert_eq!(gateway.advance(3999), []);
    assert_eq!(summary(&gateway.advance(1)), ["1 error 5003", "1 closed 4001"]);
}

#[test]
fn name_is_refused_to_another_subject() {
    let mut gateway = with_token();
    for (id, subject) in [(1, "ada"), (2, "bob"), (3, "ada")] {
        gateway.open(id);
        gateway.send(id, auth(&sign(&json!({"sub": subject}))));
    }
    assert_eq!(summary(&gateway.send(1, handshake(Some("coder")))), ["1 handshake"]);
    assert_eq!(summary(&gateway.send(2, handshake(Some("coder")))), ["2 error 5004"]);
    assert_eq!(
        summary(&gateway.send(3, handshake(Some("coder")))),
        ["3 handshake"],
        "the last connection has it"
    );
}

#[test]
fn token_in_the_query_is_accepted() {
    let mut gateway = with_token();
    let client = ClientInfo {
        token: Some("secret-token".to_owned()),
        agent: Some("coder".to_owned()),
        ..ClientInfo::default()
    };
    assert_eq!(gateway.connect(1, client), []);
    assert_eq!(gateway.machine.registry.connection("coder"), Some(ConnectionId(1)));
}

#[test]
fn agent_is_bound_after_authentication() {
    let mut gateway = with_token();
    gateway.open(1);
    assert_eq!(summary(&gateway.send(1, handshake(Some("coder")))), ["1 handshake"]);
    assert_eq!(gateway.machine.registry.connection("coder"), None);
    gateway.send(1, auth("secret-token"));
    assert_eq!(gateway.machine.registry.connection("coder"), Some(ConnectionId(1)));
}

#[test]
fn claims_before_authentication_are_limited() {
    let mut gateway = with_token();
    gateway.open(1);
    for number in 0..CLAIMS_MAX {
        assert_eq!(summary(&gateway.send(1, handshake(Some(&format!("a{number}"))))), ["1 handshake"]);
    }
    assert_eq!(summary(&gateway.send(1, handshake(Some("late")))), ["1 error 5001"]);
    assert_eq!(summary(&gateway.send(1, handshake(Some("a0")))), ["1 handshake"]);
}

#[test]
fn late_token_closes_the_connection() {
    let mut gateway = with_token();
    gateway.open(1);
    assert_eq!(gateway.machine.wake_at_ms(), Some(gateway.now_ms + 500));
    assert_eq!(gateway.advance(499), []);
    assert_eq!(summary(&gateway.advance(1)), ["1 error 1002", "1 closed 4001"]);
    assert_eq!(gateway.machine.wake_at_ms(), None);
}

#[test]
fn client_past_the_limit_is_refused() {
    let mut gateway = TestGateway::new(Settings { clients_max: 2, ..settings() });
    gateway.open(1);
    gateway.open(2);
    assert_eq!(summary(&gateway.connect(3, ClientInfo::default())), ["3 error 1001", "3 closed 1013"]);
    assert_eq!(
        gateway.connect(4, ClientInfo { is_local: true, ..ClientInfo::default() }),
        [],
        "scripts are not counted"
    );
    gateway.end(1);
    gateway.open(5);
}

#[test]
fn frames_past_the_burst_are_refused_until_later() {
    let mut gateway = TestGateway::new(Settings { rate: Rate { per_second: 1.0, burst: 2.0 }, ..settings() });
    gateway.open(1);
    let ping = json!({"type": "ping", "metadata": {"correlationId": "p"}});
    assert_eq!(summary(&gateway.send(1, ping.clone())), ["1 pong"]);
    assert_eq!(summary(&gateway.send(1, ping.clone())), ["1 pong"]);
    let refused = only_frame(gateway.send(1, ping.clone()));
    assert_eq!((&refused["content"]["code"], &refused["correlationId"]), (&json!(3003), &json!("p")));
    gateway.now_ms += 1000;
    assert_eq!(summary(&gateway.send(1, ping)), ["1 pong"]);
}

#[test]
fn from_of_another_connection_is_refused() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(1, "coder");
    gateway.open(2);
    for from in ["coder", "gateway", "client-1"] {
        let mut frame = message_to("steward", "x");
        frame["from"] = json!(from);
        assert_eq!(summary(&gateway.send(2, frame)), ["2 error 5004"], "{from}");
    }
    let mut frame = message_to("steward", "x");
    frame["from"] = json!("dreamer");
    assert_eq!(
        summary(&gateway.send(1, frame.clone())),
        ["1 error 5004"],
        "an agent sends under its own name only"
    );
    assert_eq!(summary(&gateway.send(2, frame)), ["2 error 3002"], "a free name may be used");
    assert_eq!(summary(&gateway.send(2, handshake(Some("gateway")))), ["2 error 5004"]);
    assert_eq!(summary(&gateway.send(2, handshake(Some("../x")))), ["2 error 2005"]);
    assert_eq!(
        summary(&gateway.send(2, handshake(Some("client-1")))),
        ["2 error 5004"],
        "the id of another client"
    );
}

#[test]
fn last_connection_to_bind_a_name_gets_its_messages() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(1, "coder");
    gateway.open(3);
    gateway.send(3, request_to("coder", "c"));
    gateway.open(2);
    let outputs = gateway.send(2, handshake(Some("coder")));
    assert_eq!(summary(&outputs), ["2 handshake", "3 error 3002"], "pending requests to the former one fail");
    assert_eq!(summary(&gateway.send(3, message_to("coder", "x"))), ["2 message"]);
    assert_eq!(gateway.end(1), [], "its end changes nothing");
}

#[test]
fn status_changes_reach_subscribers() {
    let mut gateway = TestGateway::new(settings());
    let subscribe = |agents: Value| json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": agents}});
    for (id, agents) in [(1, json!(["alpha"])), (2, json!(null)), (3, json!(["beta"]))] {
        gateway.open(id);
        assert_eq!(only_frame(gateway.send(id, subscribe(agents)))["content"]["status"], "subscribed");
    }
    gateway.open(4);
    let outputs = gateway.send(4, handshake(Some("alpha")));
    assert_eq!(summary(&outputs), ["4 handshake", "1 status", "2 status"]);
    let busy = json!({"type": "status", "from": "alpha", "content": {"status": "busy"}});
    let outputs = gateway.send(4, busy.clone());
    let Output::Frame(1, event) = &outputs[0] else { panic!("{outputs:?}") };
    assert_eq!(event["agent"], "alpha");
    assert_eq!(
        event["content"],
        json!({"channel": "agent:status", "agent": "alpha", "status": "busy", "previous": "online"})
    );
    assert_eq!(gateway.send(4, busy), [], "no change, no event");
    gateway.send(1, json!({"type": "unsubscribe", "content": {"channel": "agent:status"}}));
    assert_eq!(summary(&gateway.end(4)), ["2 status"]);
}

#[test]
fn status_of_a_non_agent_is_refused() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let frame = |from: Value| json!({"type": "status", "from": from, "content": {"status": "busy"}});
    assert_eq!(summary(&gateway.send(1, frame(json!(null)))), ["1 error 5004"]);
    assert_eq!(summary(&gateway.send(1, frame(json!("alpha")))), ["1 error 5004"]);
}

#[test]
fn register_frame_of_the_older_gateway_works() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let frame = only_frame(gateway.send(1, json!({"type": "register", "agentId": "coder", "metadata": {}})));
    assert_eq!(frame["type"], "registered");
    assert_eq!(frame["connectedAgents"], json!(["coder"]));
}

#[test]
fn discovery_lists_agents_workspaces_and_services() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(1, "alpha");
    let mut find =
        |kind: &str, content: Value| only_frame(gateway.send(1, json!({"type": kind, "content": content})));
    let agents = find("discovery", json!({"action": "list"}));
    let alpha = json!({
        "name": "alpha", "role": "triad-member", "status": "online", "workspace": "~/.openclaw/agents/alpha"
    });
    assert!(agents["content"]["agents"].as_array().unwrap().contains(&alpha));
    let services = find("discovery", json!({"action": "services"}));
    assert_eq!(services["content"]["services"][0]["serviceId"], "s1");
    let one = find("workspace", json!({"action": "get", "agent": "beta"}));
    assert_eq!(one["content"]["workspaces"][0]["path"], "~/.openclaw/agents/beta");
    assert_eq!(find("workspace", json!({"action": "get", "agent": "x"}))["content"]["code"], 3001);
    assert_eq!(
        find("discovery", json!({"action": "workspaces"}))["content"]["workspaces"].as_array().unwrap().len(),
        12
    );
}

#[test]
fn role_past_the_limit_is_refused() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let with_role = |bytes| {
        let mut frame = handshake(Some("visitor"));
        frame["content"]["role"] = json!("r".repeat(bytes));
        frame
    };
    assert_eq!(summary(&gateway.send(1, with_role(ROLE_BYTES_MAX))), ["1 handshake"]);
    assert_eq!(summary(&gateway.send(1, with_role(ROLE_BYTES_MAX + 1))), ["1 error 2005"]);
}

#[test]
fn disconnect_closes_without_a_reply() {
    let mut gateway = TestGateway::new(settings());
    gateway.add_agent(1, "coder");
    let outputs = gateway.send(1, json!({"type": "disconnect", "content": {"reason": "manual"}}));
    assert_eq!(summary(&outputs), ["1 closed 1000"]);
    assert_eq!(gateway.machine.registry.connection("coder"), None);
}

#[test]
fn invalid_binary_frame_keeps_the_connection_open() {
    let mut gateway = TestGateway::new(settings());
    gateway.open(1);
    let outputs = gateway.run_step(|gateway, step| gateway.on_binary(ConnectionId(1), step));
    assert_eq!(summary(&outputs), ["1 error 2001"]);
    assert_eq!(summary(&gateway.send(1, json!({"type": "ping"}))), ["1 pong"]);
}

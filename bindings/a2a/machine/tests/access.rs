//! Coming in, being somebody, and asking around.

use super::super::super::auth::Token;
use super::super::super::registry::ROLE_BYTES_MAX;
use super::super::super::testing::jwt;
use super::*;

fn guarded() -> World {
    World::new(Settings { token: Some(Token::new("secret-token")), ..settings() })
}

fn shake(from: Option<&str>) -> Value {
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
fn a_handshake_is_acknowledged_with_all_agents() {
    let mut world = World::new(settings());
    world.open(1);
    let frame = only(world.send(1, shake(None)));
    assert_eq!(frame["content"]["clientId"], "client-1");
    assert_eq!(frame["content"]["protocolVersion"], "1.0.0");
    assert_eq!(frame["content"]["availableAgents"].as_array().unwrap().len(), 12);
}

#[test]
fn before_the_token_only_a_few_types_are_served() {
    let mut world = guarded();
    world.open(1);
    assert_eq!(summary(&world.send(1, shake(None))), ["1 handshake"]);
    assert_eq!(summary(&world.send(1, json!({"type": "ping"}))), ["1 pong"]);
    assert_eq!(summary(&world.send(1, json!({"type": "discovery", "content": {}}))), ["1 error 5001"]);
    assert_eq!(summary(&world.send(1, auth("secret-token"))), ["1 auth-response"]);
    assert_eq!(summary(&world.send(1, json!({"type": "discovery", "content": {}}))), ["1 error 2002"]);
}

#[test]
fn a_wrong_token_ends_the_connection() {
    let mut world = guarded();
    world.open(1);
    assert_eq!(summary(&world.send(1, auth("wrong"))), ["1 error 5002", "1 closed 4001"]);
    assert_eq!(world.send(1, json!({"type": "ping"})), [], "nothing more is served");
    let arrival = Arrival { token: Some("wrong".to_owned()), ..Arrival::default() };
    assert_eq!(summary(&world.arrive(2, arrival)), ["2 error 5002", "2 closed 4001"]);
}

fn issued(claims: &Value) -> String {
    jwt("secret-token", &json!({"alg": "HS256"}), claims)
}

#[test]
fn connection_ends_when_its_token_expires() {
    let mut world = guarded();
    let exp = world.now_ms / 1000 + 2;
    world.open(1);
    assert_eq!(summary(&world.send(1, auth(&issued(&json!({"exp": exp}))))), ["1 auth-response"]);
    assert_eq!(world.gateway.wake_at_ms(), Some(exp * 1000));
    assert_eq!(world.later(1999), []);
    assert_eq!(summary(&world.later(1)), ["1 error 5003", "1 closed 4001"]);
    assert_eq!(world.gateway.wake_at_ms(), None);
}

#[test]
fn frame_after_the_token_expired_is_refused_before_the_timer() {
    let mut world = guarded();
    let exp = world.now_ms / 1000 + 2;
    world.open(1);
    world.send(1, auth(&issued(&json!({"exp": exp}))));
    world.now_ms += 2000;
    assert_eq!(summary(&world.send(1, json!({"type": "ping"}))), ["1 error 5003", "1 closed 4001"]);
}

#[test]
fn newer_token_of_the_same_client_keeps_the_connection() {
    let mut world = guarded();
    let now = world.now_ms / 1000;
    world.open(1);
    world.send(1, auth(&issued(&json!({"sub": "ada", "exp": now + 2}))));
    let other = auth(&issued(&json!({"sub": "bob", "exp": now + 9})));
    assert_eq!(summary(&world.send(1, other)), ["1 error 5004"]);
    let newer = auth(&issued(&json!({"sub": "ada", "exp": now + 4})));
    assert_eq!(summary(&world.send(1, newer)), ["1 auth-response"]);
    assert_eq!(world.later(3999), []);
    assert_eq!(summary(&world.later(1)), ["1 error 5003", "1 closed 4001"]);
}

#[test]
fn name_is_closed_to_another_subject() {
    let mut world = guarded();
    for (id, subject) in [(1, "ada"), (2, "bob"), (3, "ada")] {
        world.open(id);
        world.send(id, auth(&issued(&json!({"sub": subject}))));
    }
    assert_eq!(summary(&world.send(1, shake(Some("coder")))), ["1 handshake"]);
    assert_eq!(summary(&world.send(2, shake(Some("coder")))), ["2 error 5004"]);
    assert_eq!(summary(&world.send(3, shake(Some("coder")))), ["3 handshake"], "the last one has it");
}

#[test]
fn a_token_that_comes_with_the_connection_counts() {
    let mut world = guarded();
    let arrival = Arrival {
        token: Some("secret-token".to_owned()),
        agent: Some("coder".to_owned()),
        ..Arrival::default()
    };
    assert_eq!(world.arrive(1, arrival), []);
    assert_eq!(world.gateway.registry.seat("coder"), Some(ConnectionId(1)));
}

#[test]
fn an_agent_is_bound_only_once_it_has_shown_its_token() {
    let mut world = guarded();
    world.open(1);
    assert_eq!(summary(&world.send(1, shake(Some("coder")))), ["1 handshake"]);
    assert_eq!(world.gateway.registry.seat("coder"), None);
    world.send(1, auth("secret-token"));
    assert_eq!(world.gateway.registry.seat("coder"), Some(ConnectionId(1)));
}

#[test]
fn claims_before_the_token_are_counted() {
    let mut world = guarded();
    world.open(1);
    for number in 0..CLAIMS_MAX {
        assert_eq!(summary(&world.send(1, shake(Some(&format!("a{number}"))))), ["1 handshake"]);
    }
    assert_eq!(summary(&world.send(1, shake(Some("late")))), ["1 error 5001"]);
    assert_eq!(summary(&world.send(1, shake(Some("a0")))), ["1 handshake"]);
}

#[test]
fn no_token_in_time_ends_the_connection() {
    let mut world = guarded();
    world.open(1);
    assert_eq!(world.gateway.wake_at_ms(), Some(world.now_ms + 500));
    assert_eq!(world.later(499), []);
    assert_eq!(summary(&world.later(1)), ["1 error 1002", "1 closed 4001"]);
    assert_eq!(world.gateway.wake_at_ms(), None);
}

#[test]
fn the_last_client_comes_in_and_one_more_does_not() {
    let mut world = World::new(Settings { clients_max: 2, ..settings() });
    world.open(1);
    world.open(2);
    assert_eq!(summary(&world.arrive(3, Arrival::default())), ["3 error 1001", "3 closed 1013"]);
    assert_eq!(
        world.arrive(4, Arrival { is_local: true, ..Arrival::default() }),
        [],
        "scripts take no place"
    );
    world.end(1);
    world.open(5);
}

#[test]
fn a_burst_is_served_and_one_more_frame_is_not_until_later() {
    let mut world = World::new(Settings { rate: Rate { per_second: 1.0, burst: 2.0 }, ..settings() });
    world.open(1);
    let ping = json!({"type": "ping", "metadata": {"correlationId": "p"}});
    assert_eq!(summary(&world.send(1, ping.clone())), ["1 pong"]);
    assert_eq!(summary(&world.send(1, ping.clone())), ["1 pong"]);
    let refused = only(world.send(1, ping.clone()));
    assert_eq!((&refused["content"]["code"], &refused["correlationId"]), (&json!(3003), &json!("p")));
    world.now_ms += 1000;
    assert_eq!(summary(&world.send(1, ping)), ["1 pong"]);
}

#[test]
fn nobody_speaks_in_anothers_name() {
    let mut world = World::new(settings());
    world.agent(1, "coder");
    world.open(2);
    for from in ["coder", "gateway", "client-1"] {
        let mut frame = say("steward", "x");
        frame["from"] = json!(from);
        assert_eq!(summary(&world.send(2, frame)), ["2 error 5004"], "{from}");
    }
    let mut frame = say("steward", "x");
    frame["from"] = json!("dreamer");
    assert_eq!(summary(&world.send(1, frame.clone())), ["1 error 5004"], "an agent is nobody else");
    assert_eq!(summary(&world.send(2, frame)), ["2 error 3002"], "a name that nobody bears may be used");
    assert_eq!(summary(&world.send(2, shake(Some("gateway")))), ["2 error 5004"]);
    assert_eq!(summary(&world.send(2, shake(Some("../x")))), ["2 error 2005"]);
    assert_eq!(
        summary(&world.send(2, shake(Some("client-1")))),
        ["2 error 5004"],
        "nor is it another client"
    );
}

#[test]
fn the_last_one_to_bind_a_name_gets_its_messages() {
    let mut world = World::new(settings());
    world.agent(1, "coder");
    world.open(3);
    world.send(3, ask("coder", "c"));
    world.open(2);
    let got = world.send(2, shake(Some("coder")));
    assert_eq!(summary(&got), ["2 handshake", "3 error 3002"], "the former one answers no more");
    assert_eq!(summary(&world.send(3, say("coder", "x"))), ["2 message"]);
    assert_eq!(world.end(1), [], "and its end is no news");
}

#[test]
fn changes_of_state_reach_those_who_asked() {
    let mut world = World::new(settings());
    let subscribe = |agents: Value| json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": agents}});
    for (id, agents) in [(1, json!(["alpha"])), (2, json!(null)), (3, json!(["beta"]))] {
        world.open(id);
        assert_eq!(only(world.send(id, subscribe(agents)))["content"]["status"], "subscribed");
    }
    world.open(4);
    let got = world.send(4, shake(Some("alpha")));
    assert_eq!(summary(&got), ["4 handshake", "1 status", "2 status"]);
    let busy = json!({"type": "status", "from": "alpha", "content": {"status": "busy"}});
    let got = world.send(4, busy.clone());
    let Got::Frame(1, event) = &got[0] else { panic!("{got:?}") };
    assert_eq!(event["agent"], "alpha");
    assert_eq!(
        event["content"],
        json!({"channel": "agent:status", "agent": "alpha", "status": "busy", "previous": "online"})
    );
    assert_eq!(world.send(4, busy), [], "no change, no event");
    world.send(1, json!({"type": "unsubscribe", "content": {"channel": "agent:status"}}));
    assert_eq!(summary(&world.end(4)), ["2 status"]);
}

#[test]
fn only_an_agent_has_a_state() {
    let mut world = World::new(settings());
    world.open(1);
    let frame = |from: Value| json!({"type": "status", "from": from, "content": {"status": "busy"}});
    assert_eq!(summary(&world.send(1, frame(json!(null)))), ["1 error 5004"]);
    assert_eq!(summary(&world.send(1, frame(json!("alpha")))), ["1 error 5004"]);
}

#[test]
fn the_older_way_to_be_an_agent_works_too() {
    let mut world = World::new(settings());
    world.open(1);
    let frame = only(world.send(1, json!({"type": "register", "agentId": "coder", "metadata": {}})));
    assert_eq!(frame["type"], "registered");
    assert_eq!(frame["connectedAgents"], json!(["coder"]));
}

#[test]
fn discovery_tells_of_agents_workspaces_and_services() {
    let mut world = World::new(settings());
    world.agent(1, "alpha");
    let mut find =
        |kind: &str, content: Value| only(world.send(1, json!({"type": kind, "content": content})));
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
fn a_role_at_its_limit_is_taken_and_a_longer_one_is_not() {
    let mut world = World::new(settings());
    world.open(1);
    let with_role = |bytes| {
        let mut frame = shake(Some("visitor"));
        frame["content"]["role"] = json!("r".repeat(bytes));
        frame
    };
    assert_eq!(summary(&world.send(1, with_role(ROLE_BYTES_MAX))), ["1 handshake"]);
    assert_eq!(summary(&world.send(1, with_role(ROLE_BYTES_MAX + 1))), ["1 error 2005"]);
}

#[test]
fn goodbye_is_not_answered() {
    let mut world = World::new(settings());
    world.agent(1, "coder");
    let got = world.send(1, json!({"type": "disconnect", "content": {"reason": "manual"}}));
    assert_eq!(summary(&got), ["1 closed 1000"]);
    assert_eq!(world.gateway.registry.seat("coder"), None);
}

#[test]
fn a_binary_frame_is_no_json_and_the_connection_lives_on() {
    let mut world = World::new(settings());
    world.open(1);
    let got = world.turn(|gateway, turn| gateway.on_binary(ConnectionId(1), turn));
    assert_eq!(summary(&got), ["1 error 2001"]);
    assert_eq!(summary(&world.send(1, json!({"type": "ping"}))), ["1 pong"]);
}

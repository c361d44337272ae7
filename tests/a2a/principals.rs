//! Two principals on one gateway: both see all names, and each name belongs to one of them.

use serde_json::{Value, json};

use crate::remote_gateway::WAIT_UP;
use crate::support::wire::Wire;
use crate::support::{Folder, Running};
use crate::{exchange, gateway_folder};

async fn start(config: Value) -> (Folder, Running, Wire, Wire) {
    let folder = gateway_folder(config);
    let server = Running::for_principals(folder.path(), &["ada", "bob"]).await;
    let ada = Wire::live_as(&server.url, "ada").await;
    let bob = Wire::live_as(&server.url, "bob").await;
    (folder, server, ada, bob)
}

const REGISTER: &str = "await a2a.register({ name: 'coder', onMessage: () => 'ada here' }); 0";

/// Returns all calls that bob must not make with an agent of ada; `to` is a configured gateway.
fn attempts(to: &str) -> Vec<String> {
    [
        "register({ TO name: 'coder', onMessage: () => 'bob here' })",
        "send({ TO from: 'coder', agent: 'bobs', content: 'x' })",
        "status({ TO agent: 'coder', status: 'busy' })",
        "broadcast({ TO from: 'coder', message: 'x' })",
        "propose({ TO from: 'coder', proposal: 'x' })",
        "vote({ TO from: 'coder', proposalId: 'p', vote: 'approve' })",
        "sessions.list({ TO agent: 'coder' })",
        "sessions.get({ TO agent: 'coder', sessionId: 'main' })",
        "sessions.export({ TO agent: 'coder', sessionId: 'main' })",
        "sessions.import({ TO agent: 'coder', data: '{}' })",
        "sessions.create({ TO agent: 'coder' })",
        "sessions.commit({ TO agent: 'coder', sessionId: 'main' })",
        "sessions.archive({ TO agent: 'coder', sessionId: 'main' })",
        "sessions.delete({ TO agent: 'coder', sessionId: 'main' })",
    ]
    .map(|call| call.replace("TO", to))
    .to_vec()
}

async fn assert_refused(bob: &mut Wire, call: &str) {
    let code =
        format!("await a2a.{call}.then(() => 'allowed', (error) => `${{error.code}} ${{error.message}}`)");
    let caught = bob.value(&code).await;
    let caught = caught.as_str().unwrap();
    assert!(
        caught.starts_with("5004 ") || caught.ends_with("is an agent of another session"),
        "{call}: {caught}"
    );
}

#[tokio::test]
async fn agent_is_refused_to_another_principal() {
    let (_folder, server, mut ada, mut bob) = start(json!({})).await;
    ada.value(REGISTER).await;
    bob.value("await a2a.register({ name: 'bobs', onMessage: () => 'bob' }); 0").await;
    let asked = "(await a2a.request({ agent: 'coder', content: 'hi' })).content.content";
    assert_eq!(bob.value(asked).await, json!("ada here"), "every principal may send to the name");
    for call in attempts("") {
        assert_refused(&mut bob, &call).await;
    }
    assert_eq!(bob.value("await a2a.unregister({ name: 'coder' })").await, json!(false));
    let listed = "(await a2a.sessions.list({})).sessions.map((session) => session.agent)";
    assert_eq!(bob.value(listed).await, json!([]));
    assert_eq!(ada.value(listed).await, json!(["coder"]));
    let entries = "(await a2a.sessions.get({ agent: 'coder', sessionId: 'main' })).entries.length";
    assert_eq!(ada.value(entries).await, json!(2));
    let mut socket = Wire::open_as(&format!("{}a2a", server.url), "bob", Some("a2a-v1")).await;
    let handshake = json!({"type": "handshake", "from": "coder", "content": {"action": "advertise"}});
    assert_eq!(exchange(&mut socket, handshake).await["content"]["code"], 5004);
    let service = json!({"service": "session", "action": "get", "agent": "coder", "sessionId": "main"});
    assert_eq!(
        exchange(&mut socket, json!({"type": "request", "content": service})).await["content"]["code"],
        5004
    );
}

#[tokio::test]
async fn offline_name_with_sessions_keeps_its_owner() {
    let (folder, server, mut ada, mut bob) = start(json!({})).await;
    ada.value(REGISTER).await;
    bob.value("await a2a.send({ agent: 'coder', content: 'hi' }); 0").await;
    ada.invoke("session.close", json!({})).await;
    let wait = "while (await a2a.status({ agent: 'coder' }) !== 'offline') await new Promise((done) => setTimeout(done, 1));";
    bob.value(&format!("{wait} 0")).await;
    for call in attempts("") {
        assert_refused(&mut bob, &call).await;
    }
    let mut socket = Wire::open_as(&format!("{}a2a", server.url), "bob", Some("a2a-v1")).await;
    let forged = json!({"type": "message", "from": "coder", "agent": "steward", "content": {"role": "user", "content": "x"}});
    assert_eq!(exchange(&mut socket, forged).await["content"]["code"], 5004);
    // The owner survives a restart.
    drop((bob, server));
    let copy = Folder::copy_of(folder.path());
    let server = Running::for_principals(copy.path(), &["ada", "bob"]).await;
    let mut bob = Wire::live_as(&server.url, "bob").await;
    assert_refused(&mut bob, "register({ name: 'coder', onMessage: () => 'bob here' })").await;
    let mut ada = Wire::live_as(&server.url, "ada").await;
    ada.value(REGISTER).await;
}

#[tokio::test]
async fn offline_name_without_sessions_is_free() {
    let (_folder, _server, mut ada, mut bob) = start(json!({})).await;
    ada.value(REGISTER).await;
    assert_refused(&mut bob, "register({ name: 'coder', onMessage: () => 'bob here' })").await;
    assert_eq!(ada.value("await a2a.unregister({ name: 'coder' })").await, json!(true));
    let wait = "while (await a2a.status({ agent: 'coder' }) !== 'offline') await new Promise((done) => setTimeout(done, 1));";
    bob.value(&format!("{wait} 0")).await;
    bob.value("await a2a.register({ name: 'coder', onMessage: () => 'bob here' }); 0").await;
}

#[tokio::test]
async fn sessions_without_an_owner_belong_to_the_operator() {
    let (_folder, _server, mut ada, mut bob) = start(json!({})).await;
    ada.value("await a2a.send({ agent: 'steward', content: 'secret' }).catch(() => 0); 0").await;
    assert_refused(&mut bob, "sessions.get({ agent: 'steward', sessionId: 'main' })").await;
    bob.value("await a2a.register({ name: 'steward', onMessage: () => 'me' }); 0").await;
    let entries = "(await a2a.sessions.get({ agent: 'steward', sessionId: 'main' })).entries.length";
    assert_eq!(bob.value(entries).await, json!(1), "registering the name grants access to its sessions");
    assert_refused(&mut ada, "sessions.get({ agent: 'steward', sessionId: 'main' })").await;
}

#[tokio::test]
async fn config_sets_owners_or_shares_names() {
    let agents = json!([{"name": "steward", "role": "r", "owner": "ada"}, {"name": "coder", "role": "r"}]);
    let (_folder, _server, mut ada, mut bob) = start(json!({"agents": agents})).await;
    assert_refused(&mut bob, "register({ name: 'steward', onMessage: () => 'me' })").await;
    ada.value("await a2a.register({ name: 'steward', onMessage: () => 'me' }); 0").await;
    let (_folder, _server, mut ada, mut bob) = start(json!({"shared": true})).await;
    ada.value(REGISTER).await;
    bob.value("await a2a.send({ agent: 'coder', content: 'hi' }); 0").await;
    let entries = "(await a2a.sessions.get({ agent: 'coder', sessionId: 'main' })).entries.length";
    assert_eq!(bob.value(entries).await, json!(1));
    bob.value("await a2a.register({ name: 'coder', onMessage: () => 'bob here' }); 0").await;
    let asked = "(await a2a.request({ agent: 'coder', content: 'hi' })).content.content";
    assert_eq!(ada.value(asked).await, json!("bob here"));
}

#[tokio::test]
async fn remote_agent_is_refused_to_another_principal() {
    let far = gateway_folder(json!({}));
    let there = Running::folder(far.path()).await;
    let link = json!({"far": {"url": format!("{}a2a", there.url)}});
    let (_folder, _server, mut ada, mut bob) = start(json!({"gateways": link})).await;
    let register = "await a2a.register({ gateway: 'far', name: 'coder', onMessage: () => 'ada here' }); 0";
    ada.value(&format!("{WAIT_UP} {register}")).await;
    let asked = "(await a2a.request({ gateway: 'far', agent: 'coder', content: 'hi' })).content.content";
    assert_eq!(bob.value(asked).await, json!("ada here"));
    for call in attempts("gateway: 'far',") {
        assert_refused(&mut bob, &call).await;
    }
    let listed = "(await a2a.sessions.list({ gateway: 'far' })).sessions.map((session) => session.agent)";
    assert_eq!(bob.value(listed).await, json!([]));
    assert_eq!(ada.value(listed).await, json!(["coder"]));
    assert_eq!(bob.value(asked).await, json!("ada here"), "the agent still belongs to ada");
}

#[tokio::test]
async fn exported_session_is_imported_by_another_agent() {
    let (_folder, _server, mut ada, mut bob) = start(json!({})).await;
    ada.value(REGISTER).await;
    bob.value("await a2a.register({ name: 'bobs', onMessage: () => 'x' }); 0").await;
    bob.value("await a2a.request({ agent: 'coder', content: { a: 1 }, sessionId: 's1' }); 0").await;
    let exported = ada.value("await a2a.sessions.export({ agent: 'coder', sessionId: 's1' })").await;
    let data = exported["data"].as_str().unwrap();
    assert_eq!((&exported["format"], data.lines().count()), (&json!("jsonl"), 2));
    let first: Value = serde_json::from_str(data.lines().next().unwrap()).unwrap();
    assert_eq!(first["content"], json!({"a": 1}));
    let import = |id: &str| {
        format!("await a2a.sessions.import({{ agent: 'bobs', sessionId: '{id}', data: {} }})", json!(data))
    };
    assert_eq!(bob.value(&import("copy")).await["imported"], 2);
    let entries = bob.value("(await a2a.sessions.get({ agent: 'bobs', sessionId: 'copy' })).entries").await;
    assert_eq!((&entries[0]["content"], &entries[0]["sessionId"]), (&json!({"a": 1}), &json!("copy")));
    assert_eq!(entries[0]["id"], first["id"]);
    let refused = |call: &str| format!("await {call}.catch((error) => error.code)");
    let again = import("copy").replace("await ", "");
    assert_eq!(bob.value(&refused(&again)).await, json!(2005), "the session exists");
    for wrong in ["x", "[]", "{\"role\":\"user\"}", " \n"] {
        let call =
            format!("a2a.sessions.import({{ agent: 'bobs', sessionId: 'bad', data: {} }})", json!(wrong));
        assert_eq!(bob.value(&refused(&call)).await, json!(2005), "{wrong}");
    }
    let none = "a2a.sessions.export({ agent: 'bobs', sessionId: 'bad' })";
    assert_eq!(bob.value(&refused(none)).await, json!(4001), "nothing was stored");
}

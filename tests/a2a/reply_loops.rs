//! Agents that reply to every message do not loop.

use serde_json::json;

use crate::remote_gateway::{WAIT_UP, start_pair};
use crate::support::Running;
use crate::support::wire::Wire;
use crate::{connect_agent, exchange, gateway_folder, send};

/// Ten round trips to the gateway: frames that were in flight before have arrived.
const ROUND_TRIPS: &str = "for (let i = 0; i < 10; i++) await a2a.discover({ gateway: globalThis.far });";

#[tokio::test]
async fn request_to_the_only_agent_of_a_link_gets_one_reply() {
    let pair = start_pair(None).await;
    let mut script = Wire::live(&pair.local.url).await;
    let register = "globalThis.far = 'far'; globalThis.heard = []; await a2a.register({ gateway: 'far', \
        name: 'coder', onMessage: (m) => { heard.push(m.from.slice(0, 7)); return 'yes' } }); 0";
    script.value(&format!("{WAIT_UP} {register}")).await;
    let asked = "(await a2a.request({ gateway: 'far', agent: 'coder', content: '?' })).content.content";
    assert_eq!(script.value(asked).await, json!("yes"));
    assert_eq!(script.value(&format!("{ROUND_TRIPS} heard")).await, json!(["client-"]));
    let own = "(await a2a.request({ gateway: 'far', from: 'coder', agent: 'coder', content: '?' })).from";
    assert_eq!(script.value(own).await, json!("coder"));
    assert_eq!(script.value(&format!("{ROUND_TRIPS} heard.length")).await, json!(2));
    let journal = pair.folders[0].path().join("state/agents/coder/session.jsonl");
    assert_eq!(std::fs::read_to_string(journal).unwrap().lines().count(), 4, "two requests, two replies");
}

#[tokio::test]
async fn late_reply_does_not_start_a_loop() {
    let folder = gateway_folder(json!({}));
    let server = Running::folder(folder.path()).await;
    let mut a = Wire::live(&server.url).await;
    let mut b = Wire::live(&server.url).await;
    a.value(
        "globalThis.heard = 0; globalThis.held = new Promise((go) => { globalThis.go = go }); \
         await a2a.register({ name: 'a', onMessage: async () => { heard++; await held; return 'from a' } }); 0",
    )
    .await;
    let late = "globalThis.heard = 0; await a2a.register({ name: 'b', onMessage: () => { heard++; return 'from b' } }); \
        const asked = await a2a.request({ from: 'b', agent: 'a', content: '?', timeoutMs: 20 }) \
        .then(() => 'answered', () => 'late'); await a2a.status({ agent: 'b', status: 'idle' }); asked";
    assert_eq!(b.value(late).await, json!("late"));
    a.value("go(); 0").await;
    let wait = "while (!heard) await new Promise((done) => setTimeout(done, 1));";
    b.value(&format!("{wait} 0")).await;
    let wait_twice = "while (heard < 2) await new Promise((done) => setTimeout(done, 1));";
    assert_eq!(
        a.value(&format!("{wait_twice} {ROUND_TRIPS} heard")).await,
        json!(2),
        "the request and the reply of b"
    );
    assert_eq!(b.value(&format!("{ROUND_TRIPS} heard")).await, json!(1), "the late reply of a");
    assert_eq!(a.value(&format!("{ROUND_TRIPS} heard")).await, json!(2));
}

#[tokio::test]
async fn replies_to_an_echoing_peer_are_limited() {
    let folder = gateway_folder(json!({}));
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    script.value("await a2a.register({ name: 'coder', onMessage: () => 'again' }); 0").await;
    let mut echo = connect_agent(&server, "echo").await;
    let message = json!({
        "type": "message", "agent": "coder", "content": {"role": "agent", "content": "again"},
        "metadata": {"correlationId": "c"}
    });
    for _ in 0..256 {
        assert_eq!(exchange(&mut echo, message.clone()).await["content"]["content"], "again");
    }
    assert_eq!(exchange(&mut echo, message.clone()).await["content"]["code"], 3003);
    send(&mut echo, message.clone()).await;
    let mut another = message;
    another["metadata"]["correlationId"] = json!("d");
    assert_eq!(exchange(&mut echo, another).await["correlationId"], "d", "the message before got no reply");
}

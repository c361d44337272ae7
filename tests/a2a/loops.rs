//! Agents that answer whatever they get do not answer each other for ever.

use serde_json::json;

use crate::elsewhere::{WAIT_UP, two};
use crate::support::Running;
use crate::support::wire::Wire;
use crate::{agent, ask, gateway, send};

/// Ten questions to the gateway and back: what was on its way before has arrived.
const SETTLE: &str = "for (let i = 0; i < 10; i++) await a2a.discover({ gateway: globalThis.far });";

#[tokio::test]
async fn request_to_the_only_agent_of_a_link_is_answered_once() {
    let two = two(None).await;
    let mut script = Wire::live(&two.here.url).await;
    let register = "globalThis.far = 'far'; globalThis.heard = []; await a2a.register({ gateway: 'far', \
        name: 'coder', onMessage: (m) => { heard.push(m.from.slice(0, 7)); return 'yes' } }); 0";
    script.value(&format!("{WAIT_UP} {register}")).await;
    let asked = "(await a2a.request({ gateway: 'far', agent: 'coder', content: '?' })).content.content";
    assert_eq!(script.value(asked).await, json!("yes"));
    assert_eq!(script.value(&format!("{SETTLE} heard")).await, json!(["client-"]));
    let own = "(await a2a.request({ gateway: 'far', from: 'coder', agent: 'coder', content: '?' })).from";
    assert_eq!(script.value(own).await, json!("coder"));
    assert_eq!(script.value(&format!("{SETTLE} heard.length")).await, json!(2));
    let journal = two.folders[0].path().join("state/agents/coder/session.jsonl");
    assert_eq!(std::fs::read_to_string(journal).unwrap().lines().count(), 4, "two questions, two answers");
}

#[tokio::test]
async fn late_answer_is_not_answered_back_and_forth() {
    let folder = gateway(json!({}));
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
        a.value(&format!("{wait_twice} {SETTLE} heard")).await,
        json!(2),
        "the question and b's answer"
    );
    assert_eq!(b.value(&format!("{SETTLE} heard")).await, json!(1), "a's late answer");
    assert_eq!(a.value(&format!("{SETTLE} heard")).await, json!(2));
}

#[tokio::test]
async fn peer_that_answers_everything_gets_so_many_answers_and_no_more() {
    let folder = gateway(json!({}));
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    script.value("await a2a.register({ name: 'coder', onMessage: () => 'again' }); 0").await;
    let mut echo = agent(&server, "echo").await;
    let said = json!({
        "type": "message", "agent": "coder", "content": {"role": "agent", "content": "again"},
        "metadata": {"correlationId": "c"}
    });
    for _ in 0..256 {
        assert_eq!(ask(&mut echo, said.clone()).await["content"]["content"], "again");
    }
    assert_eq!(ask(&mut echo, said.clone()).await["content"]["code"], 3003);
    send(&mut echo, said.clone()).await;
    let mut another = said;
    another["metadata"]["correlationId"] = json!("d");
    assert_eq!(ask(&mut echo, another).await["correlationId"], "d", "the one before got nothing");
}

//! Scripts as agents and clients of the gateway.

use serde_json::{Value, json};

use crate::support::Running;
use crate::support::wire::{Arrival, Wire};
use crate::{connect, connect_agent, exchange, gateway_folder, send};

const ECHO: &str = "await a2a.register({ name: 'coder', role: 'tester', onMessage: (m) => \
    m.type === 'request' ? { did: m.content.service } : `you said ${m.content.content}` })";

async fn start(config: Value) -> (crate::support::Folder, Running) {
    let folder = gateway_folder(config);
    let server = Running::folder(folder.path()).await;
    (folder, server)
}

fn message_to(agent: &str, text: &str) -> Value {
    json!({
        "type": "message", "agent": agent, "content": {"role": "user", "content": text},
        "metadata": {"correlationId": "c"}
    })
}

#[tokio::test]
async fn return_value_of_on_message_is_the_reply() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    script.value(&format!("{ECHO}; 0")).await;
    let mut client = connect(&server).await;
    let answer = exchange(&mut client, message_to("coder", "hello")).await;
    assert_eq!((&answer["type"], &answer["from"]), (&json!("message"), &json!("coder")));
    assert_eq!(answer["content"], json!({"role": "assistant", "content": "you said hello"}));
    assert_eq!(answer["metadata"]["correlationId"], "c");
    let request = json!({
        "type": "request", "agent": "coder", "content": {"service": "build"}, "metadata": {"correlationId": "r"}
    });
    let response = exchange(&mut client, request).await;
    assert_eq!(
        (&response["type"], &response["content"]["result"]),
        (&json!("response"), &json!({"did": "build"}))
    );
    let listed = exchange(&mut client, json!({"type": "discovery", "content": {"action": "list"}})).await;
    let agents = listed["content"]["agents"].as_array().unwrap();
    let coder = agents.iter().find(|agent| agent["name"] == "coder").unwrap();
    assert_eq!((&coder["role"], &coder["status"]), (&json!("tester"), &json!("online")));
}

#[tokio::test]
async fn error_of_on_message_is_an_agent_error() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    script
        .value("await a2a.register({ name: 'coder', onMessage: () => { throw new Error('no') } }); 0")
        .await;
    let error = exchange(&mut connect(&server).await, message_to("coder", "x")).await;
    assert_eq!(error["content"], json!({"error": "AGENT_ERROR", "message": "no", "code": 3004}));
}

#[tokio::test]
async fn scripts_send_requests_to_scripts_and_connections() {
    let (_folder, server) = start(json!({})).await;
    let mut coder = Wire::live(&server.url).await;
    coder.value(&format!("{ECHO}; 0")).await;
    let mut script = Wire::live(&server.url).await;
    let answer = script.value("(await a2a.request({ agent: 'coder', content: 'hi' })).content.content").await;
    assert_eq!(answer, json!("you said hi"));
    let result =
        script.value("(await a2a.request({ agent: 'coder', service: 's' })).content.result.did").await;
    assert_eq!(result, json!("s"));
    let mut dreamer = connect_agent(&server, "dreamer").await;
    let code = "(await a2a.request({ agent: 'dreamer', content: 'hi' })).content";
    let asking = script.send("eval", json!({"code": code})).await;
    let asked = dreamer.json().await;
    let id = asked["metadata"]["correlationId"].clone();
    let reply = json!({
        "type": "message", "content": {"role": "assistant", "content": "zzz"}, "metadata": {"correlationId": id}
    });
    send(&mut dreamer, reply).await;
    assert_eq!(
        script.answer(asking).await["result"]["value"],
        json!({"role": "assistant", "content": "zzz"})
    );
}

#[tokio::test]
async fn gateway_errors_have_their_codes_in_scripts() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    let calls = [
        ("a2a.send({ agent: 'unknown', content: 'x' })", 3001),
        ("a2a.send({ agent: 'steward', content: 'x' })", 3002),
        ("a2a.request({ agent: 'steward', content: 'x' })", 3002),
        ("a2a.send({ agent: 'steward', content: 'x', from: 'gateway' })", 5004),
        ("a2a.vote({ from: 'alpha', proposalId: 'p', vote: 'approve' })", 5004),
        ("a2a.sessions.get({ agent: 'steward', sessionId: 'none' })", 4001),
        ("a2a.status({ agent: 'unknown' })", 3001),
    ];
    for (call, code) in calls {
        let caught = script.value(&format!("await {call}.then(() => 0, (error) => error.code)")).await;
        assert_eq!(caught, json!(code), "{call}");
    }
}

#[tokio::test]
async fn agent_goes_offline_on_unregister_or_session_end() {
    let (_folder, server) = start(json!({})).await;
    let mut watcher = connect(&server).await;
    let subscribe = json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": ["coder"]}});
    assert_eq!(exchange(&mut watcher, subscribe).await["content"]["status"], "subscribed");
    let mut script = Wire::live(&server.url).await;
    script.value(&format!("{ECHO}; 0")).await;
    assert_eq!(watcher.json().await["content"]["status"], "online");
    assert_eq!(script.value("await a2a.unregister({ name: 'coder' })").await, json!(true));
    assert_eq!(watcher.json().await["content"]["status"], "offline");
    script.value(&format!("{ECHO}; 0")).await;
    assert_eq!(watcher.json().await["content"]["status"], "online");
    assert_eq!(script.value("await a2a.status({ agent: 'coder', status: 'busy' })").await, json!("busy"));
    assert_eq!(watcher.json().await["content"]["status"], "busy");
    script.invoke("session.close", json!({})).await;
    assert_eq!(watcher.json().await["content"]["status"], "offline");
}

#[tokio::test]
async fn script_members_vote_and_the_proposer_gets_a_decision() {
    let (_folder, server) = start(json!({})).await;
    let mut members = Vec::new();
    for (name, vote) in [("alpha", "'approve'"), ("beta", "{ vote: 'approve', reasoning: 'r' }")] {
        let mut member = Wire::live(&server.url).await;
        let register = format!("await a2a.register({{ name: '{name}', onMessage: () => ({vote}) }}); 0");
        member.value(&register).await;
        members.push(member);
    }
    // The third member votes with `a2a.vote` instead of returning its vote.
    let mut charlie = Wire::live(&server.url).await;
    let late = "globalThis.seen = []; await a2a.register({ name: 'charlie', onMessage: async (m) => { \
        seen.push(m.type); if (m.type === 'proposal') await a2a.vote({ from: 'charlie', \
        proposalId: m.metadata.correlationId, vote: 'reject' }) } }); 0";
    charlie.value(late).await;
    let mut script = Wire::live(&server.url).await;
    let decision = script.value("await a2a.propose({ proposal: 'X', reasoning: 'y' })").await;
    assert_eq!((&decision["result"], &decision["consensus"]), (&json!("approved"), &json!(true)));
    assert_eq!(decision["votes"], json!({"alpha": "approve", "beta": "approve", "charlie": "reject"}));
    assert_eq!(
        charlie.value("while (seen.length < 2) await new Promise((done) => setTimeout(done, 1)); seen").await,
        json!(["proposal", "decision"])
    );
}

#[tokio::test]
async fn reply_after_on_message_returned_is_delivered() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    script.value("globalThis.held = []; await a2a.register({ name: 'coder', onMessage: (m) => { held.push(m) } }); 0").await;
    let mut client = connect(&server).await;
    send(&mut client, message_to("coder", "x")).await;
    let wait = "while (!held.length) await new Promise((done) => setTimeout(done, 1));";
    script.value(&format!("{wait} await a2a.reply({{ to: held[0], content: 'at last' }}); 0")).await;
    assert_eq!(client.json().await["content"]["content"], "at last");
    let unknown_receiver = "await a2a.reply({ to: { ...held[0], from: 'unknown' }, content: 'again' }) \
        .then(() => 0, (error) => error.code)";
    assert_eq!(script.value(unknown_receiver).await, json!(3001));
}

#[tokio::test]
async fn subscription_delivers_changes_until_it_ends() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    let listen = "globalThis.heard = []; globalThis.stop = await a2a.subscribe({ channel: 'agent:status', \
        agents: ['dreamer'], onEvent: (e) => { heard.push(e.content.status) } }); 0";
    script.value(listen).await;
    let dreamer = connect_agent(&server, "dreamer").await;
    dreamer.close().await;
    let wait = "while (heard.length < 2) await new Promise((done) => setTimeout(done, 1)); heard";
    assert_eq!(script.value(wait).await, json!(["online", "offline"]));
    assert_eq!(script.value("await stop()").await, json!(true));
    connect_agent(&server, "dreamer").await;
    script.value("await a2a.discover(); 0").await;
    assert_eq!(script.value("heard.length").await, json!(2));
}

#[tokio::test]
async fn broadcast_discovery_and_session_bindings_work() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    script.value(&format!("{ECHO}; 0")).await;
    let mut dreamer = connect_agent(&server, "dreamer").await;
    let reached = script.value("await a2a.broadcast({ message: 'hi', from: 'coder' })").await;
    assert_eq!(reached, json!({"delivered": 1, "agents": ["dreamer"]}));
    assert_eq!(dreamer.json().await["content"]["message"], "hi");
    assert_eq!(script.value("(await a2a.discover()).length").await, json!(12));
    assert_eq!(script.value("(await a2a.discover({ what: 'workspaces' }))[0].agent").await, json!("alpha"));
    script.value("await a2a.request({ agent: 'coder', content: 'remember', sessionId: 's1' }); 0").await;
    let session = script.value("await a2a.sessions.get({ agent: 'coder', sessionId: 's1' })").await;
    let said: Vec<_> = session["entries"].as_array().unwrap().iter().map(|entry| &entry["content"]).collect();
    assert_eq!(said, ["remember", "you said remember"]);
    let lifecycle = "const { sessionId } = await a2a.sessions.create({ agent: 'coder' }); \
        const listed = (await a2a.sessions.list({ agent: 'coder' })).sessions.length; \
        await a2a.sessions.commit({ agent: 'coder', sessionId }); \
        const { archived } = await a2a.sessions.archive({ agent: 'coder', sessionId: 's1' }); \
        const { deleted } = await a2a.sessions.delete({ agent: 'coder', sessionId }); \
        [listed, archived, deleted]";
    assert_eq!(script.value(lifecycle).await, json!([2, 1, true]));
}

#[tokio::test]
async fn fipa_bindings_translate_in_both_directions() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    let there =
        "await a2a.fipa.toFipa({ type: 'proposal', from: 'a', agent: 'b', content: { proposal: 'p' } })";
    let acl = script.value(there).await;
    assert_eq!((&acl["performative"], &acl["ontology"]), (&json!("propose"), &json!("heretek-v1")));
    let back =
        script.value("await a2a.fipa.fromFipa({ performative: 'refuse', sender: 'a', content: 'no' })").await;
    assert_eq!((&back["type"], &back["content"]["vote"]), (&json!("response"), &json!("reject")));
}

#[tokio::test]
async fn agent_is_refused_to_another_session() {
    let (_folder, server) = start(json!({})).await;
    let mut owner = Wire::live(&server.url).await;
    owner.value(&format!("{ECHO}; 0")).await;
    let mut other = Wire::live(&server.url).await;
    let (kind, _) = other.failure("await a2a.send({ agent: 'steward', content: 'x', from: 'coder' })").await;
    assert_eq!(kind, "PermissionDenied");
    assert_eq!(other.value("await a2a.unregister({ name: 'coder' })").await, json!(false));
    let request_to_itself =
        "(await a2a.request({ agent: 'coder', content: 'me', from: 'coder' })).content.content";
    assert_eq!(owner.value(request_to_itself).await, json!("you said me"));
}

#[tokio::test]
async fn message_past_the_inbox_limit_gets_busy() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    script.value("await a2a.register({ name: 'coder', onMessage: () => new Promise(() => {}) }); 0").await;
    let mut client = connect(&server).await;
    // 16 calls run, and 256 messages wait.
    for _ in 0..16 + 256 {
        send(&mut client, message_to("coder", "x")).await;
    }
    let pong = exchange(&mut client, json!({"type": "ping"})).await;
    assert_eq!(pong["type"], "pong", "none was refused");
    let busy = exchange(&mut client, message_to("coder", "one more")).await;
    assert_eq!(busy["content"]["code"], 3003);
}

#[tokio::test]
async fn subscription_past_the_limit_is_busy() {
    let (_folder, server) = start(json!({})).await;
    let mut script = Wire::live(&server.url).await;
    let listen = "const listen = () => a2a.subscribe({ channel: 'agent:status', onEvent() {} });";
    let all = format!("{listen} for (let i = 0; i < 1000; i++) await listen(); 0");
    assert_eq!(script.value(&all).await, json!(0));
    let (_, message) = script.failure("await listen()").await;
    assert_eq!(message, "Busy: more than 1000 agents and subscriptions");
}

#[tokio::test]
async fn binary_frame_with_json_is_read() {
    let (_folder, server) = start(json!({})).await;
    let mut client = connect(&server).await;
    client.binary(json!({"type": "ping", "metadata": {"correlationId": "b"}}).to_string().into_bytes()).await;
    let pong = client.json().await;
    assert_eq!((&pong["type"], &pong["correlationId"]), (&json!("pong"), &json!("b")));
    client.binary(vec![0xff, 0xfe]).await;
    assert_eq!(client.json().await["content"]["code"], 2001);
    assert_eq!(exchange(&mut client, json!({"type": "ping"})).await["type"], "pong");
}

#[tokio::test]
async fn server_stop_sends_disconnect_to_clients() {
    let (_folder, server) = start(json!({})).await;
    let mut client = connect(&server).await;
    assert_eq!(exchange(&mut client, json!({"type": "ping"})).await["type"], "pong");
    server.server.stop(std::time::Duration::from_secs(5)).await;
    assert_eq!(client.json().await, json!({"type": "disconnect", "content": {"reason": "shutdown"}}));
    assert_eq!(client.next().await, Arrival::Closed(1001));
}

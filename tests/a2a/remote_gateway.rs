//! Remote gateways: scripts use them over a link like the gateway of their server.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::support::wire::Wire;
use crate::support::{Folder, Running};
use crate::{connect, connect_agent, exchange, gateway_folder};

pub(crate) const WAIT_UP: &str =
    "while ((await a2a.gateways())[0].state !== 'up') await new Promise((done) => setTimeout(done, 1));";

pub(crate) struct GatewayPair {
    pub(crate) remote: Running,
    pub(crate) local: Running,
    pub(crate) folders: [Folder; 2],
}

/// Starts a server with a gateway, and one with a link to it.
pub(crate) async fn start_pair(token: Option<&str>) -> GatewayPair {
    let mut config = json!({});
    let mut link = json!({});
    if let Some(token) = token {
        config["token"] = json!(token);
        link["token"] = json!(token);
    }
    let far = gateway_folder(config);
    let remote = Running::folder(far.path()).await;
    link["url"] = json!(format!("{}a2a", remote.url));
    let near = gateway_folder(json!({"gateways": {"far": link}}));
    let local = Running::folder(near.path()).await;
    GatewayPair { remote, local, folders: [far, near] }
}

#[tokio::test]
async fn script_is_an_agent_of_a_remote_gateway() {
    let pair = start_pair(None).await;
    let mut script = Wire::live(&pair.local.url).await;
    let register =
        "await a2a.register({ gateway: 'far', name: 'coder', onMessage: (m) => m.content.content + '!' })";
    script.value(&format!("{WAIT_UP} {register}; 0")).await;
    let mut client = connect(&pair.remote).await;
    let question = json!({
        "type": "message", "agent": "coder", "content": {"role": "user", "content": "hi"},
        "metadata": {"correlationId": "c"}
    });
    assert_eq!(exchange(&mut client, question).await["content"]["content"], "hi!");
    let status = "await a2a.status({ gateway: 'far', agent: 'coder', status: 'busy' })";
    assert_eq!(script.value(status).await, json!("busy"));
    assert_eq!(
        script.value("await a2a.status({ agent: 'coder' })").await,
        json!("offline"),
        "not registered at the local gateway"
    );
    assert_eq!(script.value("await a2a.unregister({ gateway: 'far', name: 'coder' })").await, json!(true));
}

#[tokio::test]
async fn requests_over_one_link_get_their_replies() {
    let pair = start_pair(Some("secret")).await;
    let mut script = Wire::live(&pair.local.url).await;
    let register = |name: &str| {
        format!(
            "await a2a.register({{ gateway: 'far', name: '{name}', onMessage: (m) => \
             m.type === 'proposal' ? 'approve' : `{name} heard ${{m.content.content}}` }});"
        )
    };
    let members: String = ["alpha", "beta", "charlie"].map(register).concat();
    script.value(&format!("{WAIT_UP} {members} 0")).await;
    let ask_all = "(await Promise.all(['alpha', 'beta', 'alpha'].map((agent, i) => \
        a2a.request({ gateway: 'far', agent, content: String(i), from: i === 2 ? 'beta' : undefined })))) \
        .map((answer) => answer.content.content)";
    let heard = script.value(ask_all).await;
    assert_eq!(heard, json!(["alpha heard 0", "beta heard 1", "alpha heard 2"]));
    let decision = script.value("await a2a.propose({ gateway: 'far', proposal: 'X' })").await;
    assert_eq!(decision["votes"], json!({"alpha": "approve", "beta": "approve", "charlie": "approve"}));
    let reached = script.value("await a2a.broadcast({ gateway: 'far', from: 'alpha', message: 'm' })").await;
    assert_eq!(reached["agents"], json!(["beta", "charlie"]));
    let refused =
        "await a2a.send({ gateway: 'far', agent: 'unknown', content: 'x' }).catch((error) => error.code)";
    assert_eq!(script.value(refused).await, json!(3001));
    assert_eq!(script.value("(await a2a.discover({ gateway: 'far' })).length").await, json!(12));
}

#[tokio::test]
async fn status_changes_of_a_remote_gateway_are_received() {
    let pair = start_pair(None).await;
    let mut script = Wire::live(&pair.local.url).await;
    let listen = "globalThis.heard = []; await a2a.subscribe({ gateway: 'far', channel: 'agent:status', \
        onEvent: (e) => { heard.push(e.agent + ' ' + e.content.status) } });";
    script.value(&format!("{WAIT_UP} {listen} 0")).await;
    let _dreamer = connect_agent(&pair.remote, "dreamer").await;
    let wait = "while (!heard.length) await new Promise((done) => setTimeout(done, 1)); heard";
    assert_eq!(script.value(wait).await, json!(["dreamer online"]));
}

#[tokio::test]
async fn send_to_a_down_or_unknown_gateway_fails_immediately() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let folder = gateway_folder(json!({"gateways": {"far": {"url": format!("ws://{closed}/a2a")}}}));
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    for gateway in ["far", "none"] {
        let code = format!("await a2a.send({{ gateway: '{gateway}', agent: 'a', content: 'x' }})");
        let (_, message) = script.failure(&code).await;
        let expected =
            if gateway == "far" { "not connected" } else { "unknown gateway \"none\", expected one of: far" };
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn rejected_token_gives_up_the_link() {
    let far = gateway_folder(json!({"token": "right"}));
    let there = Running::folder(far.path()).await;
    let url = format!("{}a2a", there.url);
    let near = gateway_folder(json!({"gateways": {"far": {"url": url, "token": "wrong"}}}));
    let here = Running::folder(near.path()).await;
    let mut script = Wire::live(&here.url).await;
    let wait = "while ((await a2a.gateways())[0].state !== 'given up') \
        await new Promise((done) => setTimeout(done, 1)); (await a2a.gateways())[0].error";
    assert_eq!(script.value(wait).await, json!("the gateway rejects the token"));
}

/// The socket of a scripted gateway.
struct ScriptedGateway(WebSocketStream<TcpStream>);

impl ScriptedGateway {
    async fn accept(listener: &TcpListener) -> Self {
        let (stream, _) = listener.accept().await.unwrap();
        let echo = |_: &Request, mut response: Response| {
            response.headers_mut().insert("Sec-WebSocket-Protocol", "a2a-v1".parse().unwrap());
            Ok(response)
        };
        Self(tokio_tungstenite::accept_hdr_async(stream, echo).await.unwrap())
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.0.next().await.unwrap().unwrap() {
                return serde_json::from_str(text.as_str()).unwrap();
            }
        }
    }

    async fn complete_handshake(&mut self) {
        for kind in ["handshake", "ping", "handshake"] {
            assert_eq!(self.next().await["type"], kind);
        }
        self.send(json!({"type": "handshake", "content": {"action": "acknowledge"}})).await;
        self.send(json!({"type": "pong"})).await;
    }

    /// Returns the next frame that is not a fence.
    async fn next_sent(&mut self) -> Value {
        loop {
            let frame = self.next().await;
            if frame["type"] != "ping" {
                return frame;
            }
        }
    }

    async fn send(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }
}

#[tokio::test]
async fn reconnect_registers_agents_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let folder = gateway_folder(json!({"gateways": {"far": {"url": url}}}));
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    let mut first = ScriptedGateway::accept(&listener).await;
    first.complete_handshake().await;
    let register = "await a2a.register({ gateway: 'far', name: 'coder', onMessage: () => 'yes' }); \
        await a2a.request({ gateway: 'far', agent: 'x', content: '?' }).catch((error) => error.code)";
    let asking = script.send("eval", json!({"code": format!("{WAIT_UP} {register}")})).await;
    assert_eq!(first.next().await["from"], "coder");
    assert_eq!(first.next().await["type"], "ping");
    first.send(json!({"type": "pong"})).await;
    assert_eq!(first.next_sent().await["agent"], "x");
    drop(first);
    assert_eq!(script.answer(asking).await["result"]["value"], json!(1003), "the pending request fails");
    let mut second = ScriptedGateway::accept(&listener).await;
    second.complete_handshake().await;
    assert_eq!(second.next_sent().await["from"], "coder");
    let question = json!({"type": "message", "id": "m", "agent": "coder", "from": "y", "correlationId": "c",
        "content": {"role": "user", "content": "still there?"}});
    second.send(question).await;
    assert_eq!(second.next_sent().await["content"]["content"], "yes");
}

//! Gateways elsewhere: scripts speak through a link as they do to their own gateway.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::support::wire::Wire;
use crate::support::{Folder, Running};
use crate::{agent, ask, connect, gateway};

pub(crate) const WAIT_UP: &str =
    "while ((await a2a.gateways())[0].state !== 'up') await new Promise((done) => setTimeout(done, 1));";

pub(crate) struct Two {
    pub(crate) there: Running,
    pub(crate) here: Running,
    pub(crate) folders: [Folder; 2],
}

/// A server with a gateway, and one with a link to it.
pub(crate) async fn two(token: Option<&str>) -> Two {
    let mut config = json!({});
    let mut link = json!({});
    if let Some(token) = token {
        config["token"] = json!(token);
        link["token"] = json!(token);
    }
    let far = gateway(config);
    let there = Running::folder(far.path()).await;
    link["url"] = json!(format!("{}a2a", there.url));
    let near = gateway(json!({"gateways": {"far": link}}));
    let here = Running::folder(near.path()).await;
    Two { there, here, folders: [far, near] }
}

#[tokio::test]
async fn a_script_is_an_agent_of_a_gateway_elsewhere() {
    let two = two(None).await;
    let mut script = Wire::live(&two.here.url).await;
    let register =
        "await a2a.register({ gateway: 'far', name: 'coder', onMessage: (m) => m.content.content + '!' })";
    script.value(&format!("{WAIT_UP} {register}; 0")).await;
    let mut client = connect(&two.there).await;
    let question = json!({
        "type": "message", "agent": "coder", "content": {"role": "user", "content": "hi"},
        "metadata": {"correlationId": "c"}
    });
    assert_eq!(ask(&mut client, question).await["content"]["content"], "hi!");
    let status = "await a2a.status({ gateway: 'far', agent: 'coder', status: 'busy' })";
    assert_eq!(script.value(status).await, json!("busy"));
    assert_eq!(
        script.value("await a2a.status({ agent: 'coder' })").await,
        json!("offline"),
        "here it is nobody"
    );
    assert_eq!(script.value("await a2a.unregister({ gateway: 'far', name: 'coder' })").await, json!(true));
}

#[tokio::test]
async fn questions_through_one_link_find_their_answers() {
    let two = two(Some("secret")).await;
    let mut script = Wire::live(&two.here.url).await;
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
        "await a2a.send({ gateway: 'far', agent: 'nobody', content: 'x' }).catch((error) => error.code)";
    assert_eq!(script.value(refused).await, json!(3001));
    assert_eq!(script.value("(await a2a.discover({ gateway: 'far' })).length").await, json!(12));
}

#[tokio::test]
async fn changes_at_a_gateway_elsewhere_are_heard() {
    let two = two(None).await;
    let mut script = Wire::live(&two.here.url).await;
    let listen = "globalThis.heard = []; await a2a.subscribe({ gateway: 'far', channel: 'agent:status', \
        onEvent: (e) => { heard.push(e.agent + ' ' + e.content.status) } });";
    script.value(&format!("{WAIT_UP} {listen} 0")).await;
    let _dreamer = agent(&two.there, "dreamer").await;
    let wait = "while (!heard.length) await new Promise((done) => setTimeout(done, 1)); heard";
    assert_eq!(script.value(wait).await, json!(["dreamer online"]));
}

#[tokio::test]
async fn a_gateway_that_is_down_or_unknown_is_told_at_once() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let folder = gateway(json!({"gateways": {"far": {"url": format!("ws://{closed}/a2a")}}}));
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    for gateway in ["far", "none"] {
        let code = format!("await a2a.send({{ gateway: '{gateway}', agent: 'a', content: 'x' }})");
        let (_, message) = script.failure(&code).await;
        let expected = if gateway == "far" { "not connected" } else { "no gateway \"none\"; there are far" };
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_wrong_token_gives_the_link_up() {
    let far = gateway(json!({"token": "right"}));
    let there = Running::folder(far.path()).await;
    let url = format!("{}a2a", there.url);
    let near = gateway(json!({"gateways": {"far": {"url": url, "token": "wrong"}}}));
    let here = Running::folder(near.path()).await;
    let mut script = Wire::live(&here.url).await;
    let wait = "while ((await a2a.gateways())[0].state !== 'given up') \
        await new Promise((done) => setTimeout(done, 1)); (await a2a.gateways())[0].error";
    assert_eq!(script.value(wait).await, json!("the gateway does not take the token"));
}

/// A gateway that is nothing but a socket.
struct Bare(WebSocketStream<TcpStream>);

impl Bare {
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

    /// Completes the handshake.
    async fn greet(&mut self) {
        for kind in ["handshake", "ping", "handshake"] {
            assert_eq!(self.next().await["type"], kind);
        }
        self.send(json!({"type": "handshake", "content": {"action": "acknowledge"}})).await;
        self.send(json!({"type": "pong"})).await;
    }

    /// The next frame that is not a fence.
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
async fn after_a_reconnect_the_gateway_is_told_again_who_we_are() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let folder = gateway(json!({"gateways": {"far": {"url": url}}}));
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    let mut first = Bare::accept(&listener).await;
    first.greet().await;
    let register = "await a2a.register({ gateway: 'far', name: 'coder', onMessage: () => 'yes' }); \
        await a2a.request({ gateway: 'far', agent: 'x', content: '?' }).catch((error) => error.code)";
    let asking = script.send("eval", json!({"code": format!("{WAIT_UP} {register}")})).await;
    assert_eq!(first.next().await["from"], "coder");
    assert_eq!(first.next().await["type"], "ping");
    first.send(json!({"type": "pong"})).await;
    assert_eq!(first.next_sent().await["agent"], "x");
    drop(first);
    assert_eq!(script.answer(asking).await["result"]["value"], json!(1003), "what was asked is lost");
    let mut second = Bare::accept(&listener).await;
    second.greet().await;
    assert_eq!(second.next_sent().await["from"], "coder");
    let question = json!({"type": "message", "id": "m", "agent": "coder", "from": "y", "correlationId": "c",
        "content": {"role": "user", "content": "still there?"}});
    second.send(question).await;
    assert_eq!(second.next_sent().await["content"]["content"], "yes");
}

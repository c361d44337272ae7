//! A link to a gateway that implements section 11.2 of the specification only: it repeats
//! correlations in messages of agents only, its errors have no code, and it supports four types.

use std::future::Future;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::gateway_folder;
use crate::remote_gateway::WAIT_UP;
use crate::support::wire::Wire;
use crate::support::{Folder, Running};

/// How a gateway handles unknown types.
#[derive(Clone, Copy, PartialEq)]
enum UnknownTypes {
    Refused,
    Ignored,
}

/// Returns the replies to one frame. The only agent is `steward`, which replies under the same
/// correlation.
fn replies(frame: &Value, unknown: UnknownTypes) -> Vec<Value> {
    let error = |code: &str, message: String| {
        vec![json!({"type": "error", "content": {"error": code, "message": message}})]
    };
    match frame["type"].as_str().unwrap_or_default() {
        "handshake" => vec![json!({"type": "handshake", "content": {
            "action": "acknowledge", "clientId": "client-1-abc", "availableAgents": ["steward"],
            "protocolVersion": "1.0.0"}})],
        "message" if frame["agent"] == "steward" => {
            let metadata = json!({"correlationId": frame["metadata"]["correlationId"]});
            let content =
                json!({"role": "agent", "content": format!("aye, {}", frame["content"]["content"])});
            vec![json!({"type": "message", "from": "steward", "content": content, "metadata": metadata})]
        }
        "message" => error("AGENT_NOT_FOUND", format!("Agent not found: {}", frame["agent"])),
        "discovery" => vec![json!({"type": "discovery", "content": {"agents": [
            {"name": "steward", "role": "orchestrator", "status": "online", "workspace": "w"}]}})],
        "subscribe" => vec![json!({"type": "subscribe", "content": {
            "channel": frame["content"]["channel"], "status": "subscribed"}})],
        _ if unknown == UnknownTypes::Ignored => Vec::new(),
        kind => error("UNKNOWN_TYPE", format!("Unknown message type: {kind}")),
    }
}

async fn accept(listener: &TcpListener) -> WebSocketStream<TcpStream> {
    let (stream, _) = listener.accept().await.unwrap();
    let echo = |_: &Request, mut response: Response| {
        response.headers_mut().insert("Sec-WebSocket-Protocol", "a2a-v1".parse().unwrap());
        Ok(response)
    };
    tokio_tungstenite::accept_hdr_async(stream, echo).await.unwrap()
}

async fn serve(listener: TcpListener, unknown: UnknownTypes) {
    loop {
        let mut socket = accept(&listener).await;
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            for reply in replies(&serde_json::from_str(text.as_str()).unwrap(), unknown) {
                socket.send(Message::text(reply.to_string())).await.unwrap();
            }
        }
    }
}

struct LinkedSession {
    script: Wire,
    _server: Running,
    _folder: Folder,
}

/// Starts a server with a link to a gateway, and a session.
async fn start_linked<F: Future<Output = ()> + Send + 'static>(
    far: impl FnOnce(TcpListener) -> F,
) -> LinkedSession {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(far(listener));
    let folder = gateway_folder(json!({"gateways": {"far": {"url": url}}}));
    let server = Running::folder(folder.path()).await;
    let script = Wire::live(&server.url).await;
    LinkedSession { script, _server: server, _folder: folder }
}

async fn check_that_every_call_completes(unknown: UnknownTypes) {
    let mut linked = start_linked(move |listener| serve(listener, unknown)).await;
    let code = |call: &str| format!("await a2a.{call}.then(() => 'done', (error) => error.code)");
    linked.script.value(&format!("{WAIT_UP} 0")).await;
    let calls = [
        ("send({ gateway: 'far', agent: 'steward', content: 'x' })", json!("done")),
        ("send({ gateway: 'far', agent: 'unknown', content: 'x' })", json!(3001)),
        ("request({ gateway: 'far', agent: 'unknown', content: 'x' })", json!(3001)),
        ("subscribe({ gateway: 'far', channel: 'agent:status', onEvent: () => {} })", json!("done")),
        ("register({ gateway: 'far', name: 'coder', onMessage: () => 'x' })", json!("done")),
        ("send({ gateway: 'far', from: 'coder', agent: 'unknown', content: 'x' })", json!(3001)),
    ];
    for (call, expected) in calls {
        assert_eq!(linked.script.value(&code(call)).await, expected, "{call}");
    }
    let names = "(await a2a.discover({ gateway: 'far' })).map((agent) => agent.name)";
    assert_eq!(linked.script.value(names).await, json!(["steward"]));
    let status = "await a2a.status({ gateway: 'far', agent: 'steward' })";
    assert_eq!(linked.script.value(status).await, json!("online"));
    let asked = "(await a2a.request({ gateway: 'far', agent: 'steward', content: 'go' })).content.content";
    assert_eq!(linked.script.value(asked).await, json!("aye, \"go\""));
    let mixed = "JSON.stringify(await Promise.all([\
        a2a.discover({ gateway: 'far' }).then((found) => found.length),\
        a2a.request({ gateway: 'far', agent: 'x', content: '?' }).catch((error) => error.code),\
        a2a.send({ gateway: 'far', agent: 'steward', content: '!' }).then(() => 'sent'),\
        a2a.send({ gateway: 'far', agent: 'y', content: '!' }).catch((error) => error.code),\
        a2a.discover({ gateway: 'far' }).then((found) => found.length)]))";
    assert_eq!(linked.script.value(mixed).await, json!("[1,3001,\"sent\",3001,1]"));
}

#[tokio::test]
async fn minimal_gateway_completes_every_call() {
    check_that_every_call_completes(UnknownTypes::Refused).await;
}

#[tokio::test]
async fn gateway_that_ignores_unknown_types_completes_calls() {
    check_that_every_call_completes(UnknownTypes::Ignored).await;
}

#[tokio::test]
async fn minimal_gateway_refuses_unsupported_types() {
    let mut linked = start_linked(|listener| serve(listener, UnknownTypes::Refused)).await;
    linked.script.value(&format!("{WAIT_UP} 0")).await;
    let calls = [
        "broadcast({ gateway: 'far', message: 'm' })",
        "propose({ gateway: 'far', proposal: 'p' })",
        "request({ gateway: 'far', agent: 'steward', service: 's' })",
        "sessions.list({ gateway: 'far' })",
    ];
    for call in calls {
        let caught = linked.script.value(&format!("await a2a.{call}.catch((error) => error.code)")).await;
        assert_eq!(caught, json!(2004), "{call}");
    }
}

#[tokio::test]
async fn link_is_not_up_before_the_handshake_completes() {
    let (mut script, mut far, _server, _folder) = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let folder = gateway_folder(json!({"gateways": {"far": {"url": url}}}));
        let server = Running::folder(folder.path()).await;
        let script = Wire::live(&server.url).await;
        (script, accept(&listener).await, server, folder)
    };
    for _ in 0..3 {
        assert!(far.next().await.unwrap().unwrap().is_text());
    }
    let state = "(await a2a.gateways())[0].state";
    assert_eq!(script.value(state).await, json!("connecting"));
    let (_, message) = script.failure("await a2a.send({ gateway: 'far', agent: 'a', content: 'x' })").await;
    assert!(message.contains("not connected"), "{message}");
    for _ in 0..2 {
        assert_eq!(script.value(state).await, json!("connecting"));
        let reply = replies(&json!({"type": "handshake"}), UnknownTypes::Refused).remove(0);
        far.send(Message::text(reply.to_string())).await.unwrap();
    }
    script.value(&format!("{WAIT_UP} 0")).await;
}

#[tokio::test]
async fn server_stop_sends_disconnect_to_remote_gateways() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let folder = gateway_folder(json!({"gateways": {"far": {"url": url}}}));
    let server = Running::folder(folder.path()).await;
    let mut far = accept(&listener).await;
    server.server.stop(Duration::from_secs(5)).await;
    let mut last = Value::Null;
    while let Some(Ok(Message::Text(text))) = far.next().await {
        last = serde_json::from_str(text.as_str()).unwrap();
    }
    assert_eq!(last, json!({"type": "disconnect", "content": {"reason": "shutdown"}}));
}

//! A server on a port of its own, and requests made by hand.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use scomp::binding::{BindingLimits, handler};
use scomp::client::{Client, ClientError};
use scomp::package::Package;
use scomp::protocol::declaration::Declaration;
use scomp::quota::Quotas;
use scomp::server::settings::{AuthSettings, OriginSettings, TokenSettings};
use scomp::server::{Gate, Server, ServerBuilder};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// Longer than anything here takes on a busy machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);

/// The head of an upgrade, without `Host`.
pub(crate) const UPGRADE: &str = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A gate with these tokens, each of its principal.
pub(crate) fn gate(tokens: &[(&str, &str)], quotas: Quotas, allow: &[&str]) -> Gate {
    let tokens = tokens.iter().map(|(principal, token)| TokenSettings::of_token(*principal, token));
    gate_with(tokens.collect(), quotas, allow)
}

/// A gate with tokens that have settings of their own.
pub(crate) fn gate_with(tokens: Vec<TokenSettings>, quotas: Quotas, allow: &[&str]) -> Gate {
    let auth = AuthSettings { tokens, file: None };
    let origins = OriginSettings { allow: allow.iter().map(|origin| (*origin).to_owned()).collect() };
    Gate::new(&auth, origins, &quotas).unwrap()
}

/// A server with one shard and two bindings, one of which only reads.
pub(crate) fn builder() -> ServerBuilder {
    let echo = |input, _call| async move { Ok(input) };
    let declare = |name: &str, effect: &str| Declaration {
        effects: vec![effect.to_owned()],
        ..Declaration::named(name)
    };
    let package = Package::new("test")
        .with(declare("gate.echo", "read"), BindingLimits::default(), handler(echo))
        .with(declare("gate.send", "external"), BindingLimits::default(), handler(echo));
    Server::builder().shards(1).package(package)
}

/// Starts it.
pub(crate) async fn start(builder: ServerBuilder) -> (Server, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = builder.build().unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener).await });
    (server, address)
}

/// A client with this token.
pub(crate) async fn connect(address: SocketAddr, token: &str) -> Result<Client, ClientError> {
    Client::builder().token(token).connect(format!("ws://{address}/")).await
}

/// Sends one message as the holder of that token: the answer to it.
pub(crate) async fn ask(address: SocketAddr, token: &str, message: &Value) -> Value {
    let mut request = format!("ws://{address}/").into_client_request().unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    socket.send(Message::text(message.to_string())).await.unwrap();
    let answer = tokio::time::timeout(WAIT_MAX, socket.next()).await.unwrap();
    serde_json::from_str(answer.unwrap().unwrap().to_text().unwrap()).unwrap()
}

/// `GET path` with these header lines: the head of the answer and what follows it, as far as it has come.
pub(crate) async fn get(address: SocketAddr, path: &str, lines: &str) -> String {
    exchange(TcpStream::connect(address).await.unwrap(), path, lines).await
}

/// The same over any stream.
pub(crate) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    lines: &str,
) -> String {
    let request = format!("GET {path} HTTP/1.1\r\n{lines}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = async { while !is_complete(&answer) && stream.read_buf(&mut answer).await.unwrap() > 0 {} };
    tokio::time::timeout(WAIT_MAX, read).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn is_complete(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| body.len() >= length.parse::<usize>().unwrap())
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("")
}

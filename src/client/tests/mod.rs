//! The client against a scripted server: frames in, frames out, over an in-process pair.

mod calls;
mod connection;
mod reconnect;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};

use super::{Builder, Client, ClientError};
use crate::transport::{Frame, Outgoing, PairEnd, pair};

/// Frames that fit between the two ends.
const FRAMES_MAX: usize = 16;

/// The server's end, played by the test.
struct Script(PairEnd);

impl Script {
    /// The next message of the client.
    async fn next(&mut self) -> Value {
        match self.0.next().await {
            Some(Ok(Frame::Text(text))) => serde_json::from_str(&text).unwrap(),
            other => panic!("expected a message, got {other:?}"),
        }
    }

    /// The next message must be this one, `jsonrpc` aside.
    async fn expect(&mut self, mut expected: Value) {
        expected["jsonrpc"] = json!("2.0");
        assert_eq!(self.next().await, expected);
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.send_text(message.to_string()).await;
    }

    async fn send_text(&mut self, text: String) {
        self.0.send(Outgoing::Text(text)).await.unwrap();
    }

    async fn close(&mut self, code: u16, reason: &str) {
        self.0.send(Outgoing::Close { code, reason: reason.to_owned() }).await.unwrap();
    }

    /// Takes the handshake and answers it; returns its params.
    async fn accept_handshake(&mut self, session: Value) -> Value {
        let handshake = self.next().await;
        assert_eq!(handshake["method"], "handshake");
        let result = json!({
            "protocol": "0.1", "sessionId": "s1", "bindings": [{"name": "getOrder"}], "metadata": {"session": session}
        });
        self.send(json!({"id": handshake["id"], "result": result})).await;
        handshake["params"].clone()
    }
}

/// A connected client, and the server's end after the handshake.
async fn connected(builder: Builder) -> (Client, Script) {
    let (near, far) = pair(FRAMES_MAX);
    let mut script = Script(far);
    let session = json!({"resumed": false, "token": "t1", "ttlMs": 600_000});
    let (client, _) = tokio::join!(builder.connect_transport(near), script.accept_handshake(session));
    (client.unwrap(), script)
}

fn closed_code(error: &ClientError) -> Option<u16> {
    match error {
        ClientError::Closed { code, .. } => Some(*code),
        _ => None,
    }
}

//! One connection: what was asked on it, and what it is to be asked next.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// What a request was, for the one who gets its answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    Handshake { resumes: bool },
    Plain(&'static str),
    Keyed(String),
}

/// How a packet ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ending {
    Open,
    /// With a close frame, behind which nothing is read.
    Close,
    /// The connection is dropped behind the packet.
    Drop,
    /// It is reset.
    Reset,
}

pub(crate) struct Link {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) is_live: bool,
    next_id: u64,
    pub(crate) asked: HashMap<u64, Asked>,
    /// The ids of evals, answered or not, for `session.cancel`.
    pub(crate) evals: Vec<u64>,
    /// Requests of the server that are to be answered.
    pub(crate) calls: Vec<Value>,
    /// The ids of all its requests: none may come twice.
    called: HashSet<u64>,
    /// Functions of the script that we have seen.
    pub(crate) functions: Vec<String>,
}

impl Link {
    pub(crate) async fn open(url: &str) -> Result<Self, String> {
        let connecting = tokio_tungstenite::connect_async(url);
        let connected = tokio::time::timeout(Duration::from_secs(60), connecting).await;
        let (socket, _) = connected
            .map_err(|_| "the server does not take connections".to_owned())?
            .map_err(|error| format!("cannot connect: {error}"))?;
        Ok(Self {
            socket,
            is_live: false,
            next_id: 1,
            asked: HashMap::new(),
            evals: Vec::new(),
            calls: Vec::new(),
            called: HashSet::new(),
            functions: Vec::new(),
        })
    }

    /// The text of a request, which is then awaited.
    pub(crate) fn request(&mut self, method: &str, params: Value, asked: Asked) -> String {
        let id = self.next_id;
        self.next_id += 1;
        if method == "eval" {
            self.evals.push(id);
        }
        self.asked.insert(id, asked);
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    }

    /// Sends texts in one write; `false` when the connection is over.
    pub(crate) async fn send(&mut self, packet: Vec<String>, ending: Ending) -> bool {
        for text in packet {
            if self.socket.feed(Message::text(text)).await.is_err() {
                return false;
            }
        }
        if ending == Ending::Close && self.socket.feed(Message::Close(None)).await.is_err() {
            return false;
        }
        let is_sent = self.socket.flush().await.is_ok();
        if ending == Ending::Reset
            && let MaybeTlsStream::Plain(stream) = self.socket.get_ref()
        {
            // One that was closed by the other side is reset already.
            let _ = stream.set_zero_linger();
        }
        is_sent && ending == Ending::Open
    }

    /// The next text; `Ok(None)` when none came in time, an error when the connection is over.
    pub(crate) async fn text(&mut self, wait: Duration) -> Result<Option<String>, ()> {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(Some(text.as_str().to_owned())),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(()),
                    Some(Ok(_)) => {}
                }
            }
        };
        tokio::time::timeout(wait, next).await.unwrap_or(Ok(None))
    }

    /// Takes a request of the server in.
    pub(crate) fn accept_call(&mut self, message: Value) -> Result<(), String> {
        let id = message["id"].as_u64().ok_or_else(|| format!("a request without usable id: {message}"))?;
        if !self.called.insert(id) {
            return Err(format!("the server used the id {id} twice"));
        }
        self.calls.push(message);
        Ok(())
    }

    /// What an answer belongs to.
    pub(crate) fn settle(&mut self, message: &Value) -> Result<Option<Asked>, String> {
        // Complaints about what was unreadable have no id.
        if message["id"].is_null() {
            return Ok(None);
        }
        let asked = message["id"].as_u64().and_then(|id| self.asked.remove(&id));
        asked.map(Some).ok_or_else(|| format!("an answer that was not asked for, or a second one: {message}"))
    }
}

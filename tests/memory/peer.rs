//! A memory/v2 client for the tests, with its own codec, hash and signature, independent of the
//! code under test.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Map, Value, json};

use crate::support::wire::{ANSWER_WAIT_MAX, Arrival, Wire};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerOptions {
    pub is_tagged: bool,
    pub protocol: &'static str,
    pub signs: bool,
}

pub const FLAGS: &str = r#"{"modernCellRep":false,"persistentSchedulerState":false}"#;

pub struct Identity {
    pair: Ed25519KeyPair,
    pub did: String,
}

impl Identity {
    pub fn of(seed: &str) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(digest(&SHA256, seed.as_bytes()).as_ref()).unwrap();
        let mut bytes = vec![0xed, 0x01];
        bytes.extend_from_slice(pair.public_key().as_ref());
        let did = format!("did:key:z{}", encode_base58(&bytes));
        Self { pair, did }
    }

    pub fn sign(&self, value: &Value) -> Vec<u8> {
        let mut stream = Context::new(&SHA256);
        hash_value(value, &mut stream);
        self.pair.sign(stream.finish().as_ref()).as_ref().to_vec()
    }
}

fn encode_base58(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut rest = bytes.to_vec();
    let mut text = Vec::new();
    while rest.iter().any(|byte| *byte != 0) {
        let mut remainder = 0_u32;
        for byte in &mut rest {
            remainder = remainder * 256 + u32::from(*byte);
            *byte = (remainder / 58) as u8;
            remainder %= 58;
        }
        text.push(DIGITS[remainder as usize]);
    }
    text.reverse();
    String::from_utf8(text).unwrap()
}

/// Hashes the values that occur in `session.open`: no tags, no lists, and short keys.
fn hash_value(value: &Value, stream: &mut Context) {
    match value {
        Value::Number(number) => {
            stream.update(&[0x23]);
            stream.update(&number.as_f64().unwrap().to_be_bytes());
        }
        Value::String(text) if text.len() <= 64 => {
            stream.update(&[0x24, text.len() as u8]);
            stream.update(text.as_bytes());
        }
        Value::String(text) => {
            stream.update(&[0xf0]);
            stream.update(digest(&SHA256, text.as_bytes()).as_ref());
        }
        Value::Object(members) => {
            stream.update(&[0x11]);
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort();
            for key in keys {
                hash_value(&json!(key), stream);
                hash_value(&members[key], stream);
            }
            stream.update(&[0x00]);
        }
        other => panic!("unexpected in session.open: {other}"),
    }
}

/// Quotes objects with a key that starts with a slash.
fn encode_tagged(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(encode_tagged).collect(),
        Value::Object(members) if members.contains_key("$wire") => members["$wire"].clone(),
        Value::Object(members) if members.keys().any(|key| key.starts_with('/')) => json!({"/quote": value}),
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), encode_tagged(value))).collect()
        }
        scalar => scalar.clone(),
    }
}

fn decode_tagged(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(decode_tagged).collect(),
        Value::Object(mut members) => match members.remove("/quote") {
            Some(literal) if members.is_empty() => literal,
            _ => members
                .into_iter()
                .map(|(key, value)| (key, decode_tagged(value)))
                .collect::<Map<_, _>>()
                .into(),
        },
        scalar => scalar,
    }
}

/// One connection. Events and responses arrive in any order, so they have separate queues.
pub struct Peer {
    wire: Wire,
    options: PeerOptions,
    pub responses: VecDeque<Value>,
    pub events: VecDeque<Value>,
    pub closed: Option<u16>,
    session_open: Option<Value>,
    next_request: u64,
}

impl Peer {
    pub async fn open(url: &str, options: PeerOptions) -> Self {
        Self::from_wire(Wire::open(&format!("{url}memory")).await, options)
    }

    /// Connects with a token of the server, and sends `hello`.
    pub async fn with_token(url: &str, options: PeerOptions, token: &str) -> Self {
        let mut peer = Self::from_wire(Wire::with_token(&format!("{url}memory"), token).await, options);
        peer.send_hello().await;
        peer
    }

    pub async fn send_hello(&mut self) {
        let flags: Value = serde_json::from_str(FLAGS).unwrap();
        self.send(&json!({"type": "hello", "protocol": self.options.protocol, "flags": flags})).await;
        assert_eq!(self.response().await["type"], json!("hello.ok"));
    }

    /// Opens a session in any space, signed by `signer`, and returns the response.
    pub async fn open_as(&mut self, signer: &Identity, space: &str, session: &str) -> Value {
        let session = json!({"sessionId": session});
        let mut open =
            json!({"type": "session.open", "requestId": "open", "space": space, "session": session});
        self.sign(&mut open, &json!({"iss": signer.did}), signer);
        self.send(&open).await;
        self.response().await
    }

    fn from_wire(wire: Wire, options: PeerOptions) -> Self {
        Self {
            wire,
            options,
            responses: VecDeque::new(),
            events: VecDeque::new(),
            closed: None,
            session_open: None,
            next_request: 0,
        }
    }

    /// Connects, sends `hello` and opens a session in the space of an identity.
    pub async fn open_session(
        url: &str,
        options: PeerOptions,
        owner: &Identity,
        session: Value,
    ) -> (Self, Value) {
        let mut peer = Self::open(url, options).await;
        let flags: Value = serde_json::from_str(FLAGS).unwrap();
        peer.send(&json!({"type": "hello", "protocol": options.protocol, "flags": flags})).await;
        assert_eq!(peer.response().await["type"], json!("hello.ok"));
        let mut open =
            json!({"type": "session.open", "requestId": "open", "space": owner.did, "session": session});
        peer.sign(&mut open, &json!({}), owner);
        peer.send(&open).await;
        let opened = peer.response().await;
        assert!(opened.get("ok").is_some(), "{opened}");
        (peer, opened["ok"].clone())
    }

    /// Sends a request in a session and returns the response.
    pub async fn request(&mut self, kind: &str, space: &str, session: &str, body: Value) -> Value {
        self.next_request += 1;
        let mut message = body;
        message["type"] = json!(kind);
        message["requestId"] = json!(format!("r{}", self.next_request));
        message["space"] = json!(space);
        message["sessionId"] = json!(session);
        self.send(&message).await;
        self.response().await
    }

    /// Signs a `session.open`; `how` may change the issuer or make the signature invalid.
    pub fn sign(&self, message: &mut Value, how: &Value, signer: &Identity) {
        if !self.options.signs || how["none"] == json!(true) {
            return;
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let expires = now.saturating_add_signed(how["expIn"].as_i64().unwrap_or(300));
        let mut invocation = json!({
            "iss": how["iss"].as_str().unwrap_or(message["space"].as_str().unwrap()),
            "cmd": "session.open",
            "sub": message["space"],
            "args": {"protocol": self.options.protocol, "session": message["session"]},
            "iat": now,
            "exp": expires,
        });
        if let Some(metadata) = &self.session_open {
            invocation["aud"] = metadata["audience"].clone();
            invocation["challenge"] = metadata["challenge"]["value"].clone();
        }
        for (key, value) in how["override"].as_object().into_iter().flatten() {
            invocation[key] = value.clone();
        }
        let mut signature = signer.sign(&invocation);
        if how["corrupt"] == json!(true) {
            signature[5] ^= 1;
        }
        message["invocation"] = invocation;
        message["authorization"] = if self.options.is_tagged {
            json!({"signature": {"$wire": {"/Bytes@1": URL_SAFE_NO_PAD.encode(&signature)}}})
        } else {
            json!({"signature": signature})
        };
    }

    pub async fn send(&mut self, message: &Value) {
        let text = if self.options.is_tagged {
            format!("fvj1:{}", encode_tagged(message))
        } else {
            message.to_string()
        };
        self.wire.text(&text).await;
    }

    pub async fn text(&mut self, text: &str) {
        self.wire.text(text).await;
    }

    pub async fn binary(&mut self, bytes: Vec<u8>) {
        self.wire.binary(bytes).await;
    }

    pub async fn close(self) {
        self.wire.close().await;
    }

    /// Waits for a message and returns whether one arrived.
    pub async fn receive(&mut self, wait: Duration) -> bool {
        match self.wire.next_within(wait).await {
            Arrival::Text(text) => {
                let message = match text.strip_prefix("fvj1:") {
                    Some(json) => decode_tagged(serde_json::from_str(json).unwrap()),
                    None => serde_json::from_str(&text).unwrap(),
                };
                let metadata = message.get("sessionOpen");
                let metadata = metadata
                    .or_else(|| message["ok"].get("sessionOpen"))
                    .or_else(|| message["error"].get("sessionOpen"));
                self.session_open = metadata.cloned().or(self.session_open.take());
                let is_event = message["type"].as_str().is_some_and(|kind| kind.starts_with("session/"));
                let queue = if is_event { &mut self.events } else { &mut self.responses };
                queue.push_back(message);
                true
            }
            Arrival::Closed(code) => {
                self.closed = Some(code);
                false
            }
            Arrival::Gone | Arrival::Silence => false,
        }
    }

    pub async fn response(&mut self) -> Value {
        while self.responses.is_empty() && self.receive(ANSWER_WAIT_MAX).await {}
        self.responses.pop_front().unwrap_or(Value::Null)
    }

    pub async fn event(&mut self) -> Value {
        while self.events.is_empty() && self.receive(ANSWER_WAIT_MAX).await {}
        self.events.pop_front().unwrap_or(Value::Null)
    }
}

//! The handshake of a connection: what the client declares, and what the server answers.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::ClientError;
use super::command::Waiter;
use super::machine::{Effect, Machine};
use super::task::Ended;
use crate::protocol::methods::{CANCEL_INVOKE, HANDSHAKE, PROTOCOL, ResumeParams};
use crate::transport::{BoxTransport, Conversation, Driver, Outbox};

/// How long the server may take to answer the handshake.
/// A scomp server answers immediately; the rest is for slow networks.
const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The session of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Resumes it, once; `None` if the server keeps no sessions.
    pub token: Option<String>,
    /// Whether this connection resumed it.
    pub resumed: bool,
    /// How long it outlives its connection, in milliseconds.
    pub ttl_ms: Option<u64>,
}

impl Session {
    /// What a later handshake needs to resume it.
    pub fn resume(&self) -> Option<ResumeParams> {
        Some(ResumeParams { id: self.id.clone(), token: self.token.clone()? })
    }
}

/// What the client declares.
#[derive(Serialize)]
pub(super) struct Introduction<'a> {
    pub(super) bindings: &'a [Value],
    pub(super) metadata: &'a Value,
}

#[derive(Serialize)]
struct HandshakeOut<'a> {
    protocol: &'static str,
    #[serde(flatten)]
    introduction: &'a Introduction<'a>,
    notifications: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a ResumeParams>,
}

/// What the server answered.
#[derive(Debug)]
pub(super) struct HandshakeResult {
    pub(super) session: Session,
    pub(super) bindings: Vec<Value>,
    pub(super) metadata: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HandshakeIn {
    protocol: String,
    session_id: String,
    #[serde(default)]
    bindings: Vec<Value>,
    #[serde(default)]
    metadata: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SessionIn {
    resumed: bool,
    token: Option<String>,
    ttl_ms: Option<u64>,
}

/// Shakes hands, and lets the machine go live.
pub(super) async fn shake_hands(
    driver: &mut Driver<BoxTransport>,
    machine: &mut Machine<Waiter>,
    introduction: &Introduction<'_>,
    session: Option<&ResumeParams>,
) -> Result<HandshakeResult, ClientError> {
    let params = HandshakeOut { protocol: PROTOCOL, introduction, notifications: [CANCEL_INVOKE], session };
    let request = machine.request(HANDSHAKE, &params, Waiter::detached());
    let (_, text) = request.map_err(|(error, _)| error)?;
    let mut handshake = Handshake { machine, request: Some(text), answer: None };
    let never = CancellationToken::new();
    let run = driver.run(&mut handshake, &never);
    let timed_out = |_| ClientError::Handshake("handshake timed out".to_owned());
    let end = timeout(HANDSHAKE_WAIT_MAX, run).await.map_err(timed_out)?;
    let Some(answer) = handshake.answer else {
        return Err(Ended::new(end, driver.failure()).to_error());
    };
    let result = read(answer?)?;
    machine.go_live();
    Ok(result)
}

/// The connection until the server has answered the handshake.
struct Handshake<'a> {
    machine: &'a mut Machine<Waiter>,
    request: Option<String>,
    answer: Option<Result<Value, ClientError>>,
}

impl Conversation for Handshake<'_> {
    type Command = Infallible;

    fn on_open(&mut self, _: Instant, out: &mut Outbox) {
        self.request.take().into_iter().for_each(|text| out.send(text));
    }

    fn on_text(&mut self, text: &str, _: Instant, out: &mut Outbox) {
        match self.machine.on_text(text) {
            Some(Effect::Answered { outcome, .. }) => self.answer = Some(outcome),
            Some(Effect::Send(text)) => out.send(text),
            // The machine runs nothing before it is live.
            Some(Effect::Called | Effect::Print(_) | Effect::Cancel(_)) | None => {}
        }
    }

    fn on_command(&mut self, command: Infallible, _: Instant, _: &mut Outbox) {
        match command {}
    }

    fn is_done(&self) -> bool {
        self.answer.is_some()
    }

    fn on_end(&mut self, _: Instant) {}
}

fn read(answer: Value) -> Result<HandshakeResult, ClientError> {
    let answer: HandshakeIn =
        serde_json::from_value(answer).map_err(|error| ClientError::Handshake(error.to_string()))?;
    if answer.protocol != PROTOCOL {
        let message = format!("unsupported protocol version {:?}, expected {PROTOCOL:?}", answer.protocol);
        return Err(ClientError::Handshake(message));
    }
    let session = answer.metadata.get("session").cloned();
    let session: SessionIn =
        session.and_then(|session| serde_json::from_value(session).ok()).unwrap_or_default();
    Ok(HandshakeResult {
        session: Session {
            id: answer.session_id,
            token: session.token,
            resumed: session.resumed,
            ttl_ms: session.ttl_ms,
        },
        bindings: answer.bindings,
        metadata: answer.metadata,
    })
}

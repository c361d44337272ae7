//! The first exchange of a connection: what we declare, and who answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use super::ClientError;
use super::machine::{Effect, Machine};
use super::wire::Wire;
use crate::protocol::methods::{CANCEL_INVOKE, HANDSHAKE, PROTOCOL, ResumeParams};

/// How long the server may take to answer the handshake.
/// It answers at once or is no scomp server; the rest is for slow networks.
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

/// What the client says of itself.
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

/// What the server says of itself.
#[derive(Debug)]
pub(super) struct Welcome {
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
pub(super) async fn shake_hands<W>(
    wire: &mut Wire,
    machine: &mut Machine<W>,
    introduction: &Introduction<'_>,
    session: Option<&ResumeParams>,
    waiter: W,
) -> Result<Welcome, ClientError> {
    let params = HandshakeOut { protocol: PROTOCOL, introduction, notifications: [CANCEL_INVOKE], session };
    let (_, text) = machine.request(HANDSHAKE, &params, waiter).map_err(|(error, _)| error)?;
    wire.push(text);
    let answer = timeout(HANDSHAKE_WAIT_MAX, answer(wire, machine)).await;
    let answer = answer.map_err(|_| ClientError::Handshake("the server does not answer".to_owned()))??;
    let welcome = read(answer)?;
    machine.go_live();
    Ok(welcome)
}

async fn answer<W>(wire: &mut Wire, machine: &mut Machine<W>) -> Result<Value, ClientError> {
    loop {
        let text = wire
            .next()
            .await
            .map_err(|ended| ClientError::Closed { code: ended.code(), reason: ended.reason().to_owned() })?;
        match machine.on_text(&text) {
            Some(Effect::Answered { outcome, .. }) => return outcome,
            Some(Effect::Send(text)) => wire.push(text),
            // The machine runs nothing before it is live.
            Some(Effect::Called | Effect::Print(_) | Effect::Cancel(_)) | None => {}
        }
    }
}

fn read(answer: Value) -> Result<Welcome, ClientError> {
    let answer: HandshakeIn =
        serde_json::from_value(answer).map_err(|error| ClientError::Handshake(error.to_string()))?;
    if answer.protocol != PROTOCOL {
        return Err(ClientError::Handshake(format!("the server speaks {}, not {PROTOCOL}", answer.protocol)));
    }
    let session = answer.metadata.get("session").cloned();
    let session: SessionIn =
        session.and_then(|session| serde_json::from_value(session).ok()).unwrap_or_default();
    Ok(Welcome {
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

//! `result` of a handshake.

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::to_json;
use crate::protocol::methods::PROTOCOL;
use crate::schema::SchemaWarning;

/// See the module.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HandshakeResult<'a> {
    protocol: &'static str,
    session_id: &'a str,
    bindings: &'a RawValue,
    metadata: Metadata<'a>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    server: &'a RawValue,
    runtime: &'a RawValue,
    session: SessionMetadata<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [SchemaWarning],
}

/// What runs the scripts. Every handshake says the same, so it is written once.
static RUNTIME: LazyLock<Box<RawValue>> =
    LazyLock::new(|| to_json(&json!({"language": "javascript", "engine": "quickjs"})));

/// What a client needs to resume its session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionMetadata<'a> {
    #[serde(rename = "resumed")]
    pub(super) is_resumed: bool,
    pub(super) token: &'a str,
    pub(super) ttl_ms: u64,
    /// Evals that wait or run.
    pub(super) evals_queued: usize,
}

impl<'a> HandshakeResult<'a> {
    pub(super) fn new(
        session_id: &'a str,
        bindings: &'a RawValue,
        server: &'a RawValue,
        session: SessionMetadata<'a>,
        warnings: &'a [SchemaWarning],
    ) -> Self {
        let metadata = Metadata { server, runtime: &RUNTIME, session, warnings };
        Self { protocol: PROTOCOL, session_id, bindings, metadata }
    }
}

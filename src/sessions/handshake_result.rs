//! `result` of a handshake.

use serde::Serialize;
use serde_json::value::RawValue;

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
    runtime: Runtime,
    session: SessionMetadata<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [SchemaWarning],
}

#[derive(Serialize)]
struct Runtime {
    language: &'static str,
    engine: &'static str,
}

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
        let runtime = Runtime { language: "javascript", engine: "quickjs" };
        let metadata = Metadata { server, runtime, session, warnings };
        Self { protocol: PROTOCOL, session_id, bindings, metadata }
    }
}

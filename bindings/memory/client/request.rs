//! Requests that scripts make to a server, and the errors they may get back.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::super::codec::Data;
use super::{Signer, SyncBuffer};

/// A request that failed, on the server or on the way to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub(in super::super) struct ClientError {
    /// The protocol's name of the error; `ConnectionError` if the server was not reached.
    pub(in super::super) name: String,
    pub(in super::super) message: String,
    pub(in super::super) retry_after_seq: Option<u64>,
    is_retriable: bool,
}

impl ClientError {
    pub(in super::super) fn new(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into(), retry_after_seq: None, is_retriable: false }
    }

    pub(in super::super) fn connection(message: impl Into<String>) -> Self {
        Self::new("ConnectionError", message)
    }

    /// Whether the same request can succeed on a new connection.
    pub(super) fn is_retriable(&self) -> bool {
        self.is_retriable
    }
}

/// The result in a `response` message.
pub(super) fn parse_response(message: &Data) -> Result<Data, ClientError> {
    match message.get("error") {
        None => Ok(message.get("ok").cloned().unwrap_or(Data::Null)),
        Some(error) => {
            let text = |key: &str| error.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
            Err(ClientError {
                name: text("name"),
                message: text("message"),
                retry_after_seq: error.get("retryAfterSeq").and_then(Data::as_u64),
                is_retriable: error.get("retriable").and_then(Data::as_bool).unwrap_or(false),
            })
        }
    }
}

/// Receives the result of a request.
pub(in super::super) type Reply = oneshot::Sender<Result<Data, ClientError>>;

/// A space and the identity under which it is used.
#[derive(Debug, Clone)]
pub(in super::super) struct SpaceIdentity {
    pub(in super::super) space: String,
    pub(in super::super) identity: Signer,
}

/// A request in a space of the server.
#[derive(Debug)]
pub(in super::super) enum Request {
    /// Opens a session and returns the server's response.
    Open {
        target: SpaceIdentity,
        reply_tx: Reply,
    },
    /// The client adds the `localSeq` to the commit.
    Transact {
        target: SpaceIdentity,
        commit: Data,
        reply_tx: Reply,
    },
    Query {
        target: SpaceIdentity,
        query: Data,
        reply_tx: Reply,
    },
    /// Starts a watch. The reply is its first sync, later ones go to the buffer.
    Watch {
        target: SpaceIdentity,
        watch_number: u64,
        watches: Data,
        syncs: Arc<SyncBuffer>,
        reply_tx: Reply,
    },
    Unwatch {
        target: SpaceIdentity,
        watch_number: u64,
    },
}

impl Request {
    /// The space and the number of the watch; 0 for requests without a watch, which share a
    /// session.
    pub(super) fn target(&self) -> (SpaceIdentity, u64) {
        match self {
            Self::Open { target, .. } | Self::Transact { target, .. } | Self::Query { target, .. } => {
                (target.clone(), 0)
            }
            Self::Watch { target, watch_number, .. } | Self::Unwatch { target, watch_number } => {
                (target.clone(), *watch_number)
            }
        }
    }

    pub(super) fn reject(self, error: ClientError) {
        match self {
            Self::Open { reply_tx, .. }
            | Self::Transact { reply_tx, .. }
            | Self::Query { reply_tx, .. }
            | Self::Watch { reply_tx, .. } => {
                let _ = reply_tx.send(Err(error));
            }
            Self::Unwatch { .. } => {}
        }
    }
}

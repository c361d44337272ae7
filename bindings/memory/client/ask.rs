//! What scripts ask of a server, and how they are answered.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::super::codec::Data;
use super::{Mailbox, Signer};

/// Why a server did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub(in super::super) struct ClientError {
    /// The stable name; `ConnectionError` if the server was not reached.
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

    /// Whether the same can succeed on a new connection.
    pub(super) fn is_retriable(&self) -> bool {
        self.is_retriable
    }
}

/// What a response says.
pub(super) fn result_of(message: &Data) -> Result<Data, ClientError> {
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

/// Where an answer goes.
pub(in super::super) type Reply = oneshot::Sender<Result<Data, ClientError>>;

/// A space, and who is in it.
#[derive(Debug, Clone)]
pub(in super::super) struct Mounted {
    pub(in super::super) space: String,
    pub(in super::super) identity: Signer,
}

/// Something to be done in a space of the server.
#[derive(Debug)]
pub(in super::super) enum Ask {
    /// Opens a session; the answer is the server's.
    Open {
        at: Mounted,
        reply_tx: Reply,
    },
    /// Commits; the number is added here.
    Transact {
        at: Mounted,
        commit: Data,
        reply_tx: Reply,
    },
    Query {
        at: Mounted,
        query: Data,
        reply_tx: Reply,
    },
    /// Starts a watch; the answer is its first sync, later ones go to the mailbox.
    Watch {
        at: Mounted,
        number: u64,
        watches: Data,
        mailbox: Arc<Mailbox>,
        reply_tx: Reply,
    },
    Unwatch {
        at: Mounted,
        number: u64,
    },
}

impl Ask {
    /// The session that it is for.
    pub(super) fn place(&self) -> (Mounted, u64) {
        match self {
            Self::Open { at, .. } | Self::Transact { at, .. } | Self::Query { at, .. } => (at.clone(), 0),
            Self::Watch { at, number, .. } | Self::Unwatch { at, number } => (at.clone(), *number),
        }
    }

    pub(super) fn refuse(self, error: ClientError) {
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

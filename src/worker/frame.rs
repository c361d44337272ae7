//! The messages between the server and a worker.

#![allow(missing_docs)] // The fields of variants are named by what they are.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::rpc::ErrorObject;
use crate::sandbox::{Strictness, Walls};
use crate::session::boundary::{FromSession, ToSession};

/// The first message, which the worker reads before it enters the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerConfig {
    /// Of the server; a worker of another version does not start.
    pub(crate) version: String,
    /// The process that started it.
    pub(crate) parent: u32,
    pub(crate) strictness: Strictness,
    pub(crate) limits: Limits,
    pub(crate) hibernate_after_ms: u64,
    pub(crate) hibernate_folder: Option<PathBuf>,
    pub(crate) hibernated_bytes_max: u64,
}

/// From the server to a worker. Sessions have numbers of the server's, never reused.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// Bindings of the server that later messages name by their version.
    Catalog(Arc<Catalog>),
    /// A session is to be started. Answered by [`FromWorker::Started`] or [`FromWorker::Refused`].
    Start { session: u64, id: String, principal: String, catalog: Arc<Catalog> },
    /// A message for a session; one that has ended gets nothing.
    Session { session: u64, message: ToSession },
    /// Answered by [`FromWorker::Pong`] as soon as no script runs.
    Ping {
        number: u64,
        /// What its sessions may use together from now on.
        memory_bytes_max: usize,
    },
}

/// From a worker to the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// The worker is in the sandbox, behind these walls.
    Ready { version: String, walls: Walls },
    /// It cannot run; nothing comes after this.
    Failed { problem: String },
    /// The session runs.
    Started { session: u64 },
    /// The session was not started.
    Refused { session: u64, error: ErrorObject },
    /// A message of a session.
    Session { session: u64, message: FromSession },
    /// The answer to [`ToWorker::Ping`].
    Pong { number: u64, memory_bytes: usize },
}

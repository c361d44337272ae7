//! Which sessions share a process, with the server or with each other.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Directory;
use crate::limits::{SettingCheck, SettingsError};
pub use crate::sandbox::Strictness;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::sessions::host::process::{ProcessHost, ProcessHostParts};

/// Which sessions share a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// All of them, with the server: a thread of the server runs them.
    #[default]
    Thread,
    /// Those of one principal. Without tokens every session has a process of its own, as long as there are enough.
    Principal,
    /// None: every session has a process of its own.
    Session,
}

/// `[workers]`: the processes that run sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSettings {
    /// Processes in all. Past it sessions share those of their own principal; without one of these, `Busy`.
    pub workers_max: usize,
    /// Processes of one principal. Its further sessions share them.
    #[schemars(extend("x-default" = "as many as there are cores", "x-example" = 2))]
    pub per_principal_max: usize,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // A worker takes a few megabytes by itself.
        Self { workers_max: 256, per_principal_max: cores }
    }
}

impl WorkerSettings {
    /// Whether a server with these settings can serve anything.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new("workers");
        check.count("workers_max", self.workers_max, 10_000);
        check.count("per_principal_max", self.per_principal_max, self.workers_max.max(1));
        check.finish()
    }
}

/// Where sessions run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IsolationSettings {
    /// Which sessions share a process.
    pub isolation: Isolation,
    /// What happens where the system cannot wall a process off.
    pub sandbox: Strictness,
    /// How many processes there may be.
    pub workers: WorkerSettings,
    /// The program of the processes, whose `main` begins with `scomp::worker::worker_main`; absent: the one that runs.
    pub program: Option<PathBuf>,
}

/// Sessions cannot run as the settings want it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct IsolationError(String);

impl Directory {
    /// Runs sessions where the settings say. With processes, one is started to see whether that can be done here.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub(crate) fn isolated(mut self, settings: IsolationSettings) -> Result<Self, IsolationError> {
        if settings.isolation == Isolation::Thread {
            return Ok(self);
        }
        if self.store.is_some() {
            let message =
                "state.dir: sessions in worker processes are not stored; expected isolation = \"thread\"";
            return Err(IsolationError(message.to_owned()));
        }
        let isolation = settings.isolation;
        let opened = ProcessHost::open(ProcessHostParts {
            settings,
            sessions: self.settings.clone(),
            handlers: std::sync::Arc::clone(&self.handlers),
            limits: std::sync::Arc::clone(&self.limits),
            memory: std::sync::Arc::clone(&self.memory),
            residency: std::sync::Arc::clone(&self.residency),
        });
        let (host, walls) = opened.map_err(|error| IsolationError(error.to_string()))?;
        if !walls.are_complete() {
            tracing::warn!(?walls, "worker processes are not walled off completely");
        }
        tracing::info!(?isolation, ?walls, "scripts run in worker processes");
        self.host = Box::new(host);
        Ok(self)
    }

    /// Runs sessions where the settings say.
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    pub(crate) fn isolated(self, settings: IsolationSettings) -> Result<Self, IsolationError> {
        match settings.isolation {
            Isolation::Thread => Ok(self),
            Isolation::Principal | Isolation::Session => Err(IsolationError(
                "isolation: only Linux on x86-64 has worker processes, expected \"thread\"".to_owned(),
            )),
        }
    }
}

//! Sessions without their heap in memory.
//!
//! A session that has been idle for a while is *hibernated*: its garbage is collected, the pages of its heap are written
//! to a file without a name ([`store`]), and the memory is unmapped. What the session is beside its heap stays as it
//! is, so messages that need no JavaScript are still answered. The next turn maps the pages back.
//!
//! Which sessions are idle is found by one task per shard ([`idle`]), so that an eval sets no timer for it.

pub(crate) mod idle;
pub(crate) mod store;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use idle::IdleMark;
pub(crate) use store::{ImageStore, StoredImage, clear};

/// When the sessions of a server are hibernated, and where they go.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hibernation {
    pub(crate) when: HibernateWhen,
    /// Absent where no folder can hold images: then no session is hibernated.
    pub(crate) store: Option<Arc<ImageStore>>,
}

/// When a session is hibernated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum HibernateWhen {
    #[default]
    Never,
    /// After that long without a message or a turn.
    Idle(Duration),
    /// After every turn, for tests: every state between two turns is then written out and read back.
    EveryTurn,
}

/// What an operator chose.
#[derive(Debug, Clone)]
pub(crate) struct HibernationSettings {
    pub(crate) when: HibernateWhen,
    /// Where images go; otherwise to a folder for temporary files that is on a disk.
    pub(crate) folder: Option<PathBuf>,
    /// Bytes on disk for the images of all sessions.
    pub(crate) bytes_max: u64,
}

impl Hibernation {
    /// Looks for a place for images. Without one there is a warning, and sessions stay in memory.
    pub(crate) fn open(settings: &HibernationSettings) -> Self {
        let HibernationSettings { when, folder, bytes_max } = settings;
        let is_off = *when == HibernateWhen::Never;
        if is_off && cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            return Self::default();
        }
        if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            tracing::warn!("sessions are not hibernated: only Linux on x86-64 can do that");
            return Self::default();
        }
        match ImageStore::open(folder.as_deref(), *bytes_max) {
            Ok(store) => Self { when: *when, store: Some(store) },
            // Checkpoints are refused then.
            Err(_) if is_off => Self::default(),
            Err(error) => {
                tracing::warn!(%error, "idle sessions stay in memory: there is no folder for their heaps");
                Self::default()
            }
        }
    }

    /// How long a session is idle before it is hibernated, if that is decided by time.
    pub(crate) fn idle_max(&self) -> Option<Duration> {
        match self.when {
            HibernateWhen::Idle(idle) => Some(idle),
            HibernateWhen::Never | HibernateWhen::EveryTurn => None,
        }
    }
}

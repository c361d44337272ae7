//! How long sessions live and how many there may be.

use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{DURATION_MAX, SettingCheck, SettingsError};
use crate::runtime::{HibernateWhen, HibernationSettings};

/// See the module.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSettings {
    /// Sessions on this server. Past it: `Busy`.
    pub sessions_max: usize,
    /// How long a session without connection is kept, in milliseconds.
    pub ttl_ms: u64,
    /// Sessions without connection that are kept, in equal parts for the principals that have tokens. Past its part a
    /// principal loses the one of its own that has been detached longest, never one of another.
    pub detached_max: usize,
    /// How long a session is idle, connected or not, before its heap leaves memory for the disk, in milliseconds. The next
    /// message or timer that needs it brings it back. 0: never.
    pub hibernate_after_ms: u64,
    /// The folder for these heaps, in a file without a name that only this process can read. By default the folder for
    /// temporary files or `/var/tmp`, whichever is on a disk.
    #[schemars(extend("x-path" = true, "x-default" = "the folder for temporary files, or `/var/tmp`"))]
    #[schemars(extend("x-example" = "/var/lib/scomp-serve"))]
    pub hibernate_folder: Option<PathBuf>,
    /// Bytes on disk for the heaps of idle sessions. Past it sessions stay in memory.
    pub hibernated_bytes_max: u64,
    /// For tests: the heap leaves memory after every turn, whatever `hibernate_after_ms` says.
    #[doc(hidden)]
    #[serde(skip)]
    pub hibernate_every_turn: bool,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            sessions_max: 20_000,
            ttl_ms: 600_000,
            detached_max: 10_000,
            hibernate_after_ms: 30_000,
            hibernate_folder: None,
            // 50,000 small sessions, or 20,000 of 800 KB.
            hibernated_bytes_max: 16 << 30,
            hibernate_every_turn: false,
        }
    }
}

impl SessionSettings {
    /// Whether a server with these settings can serve anything. `detached_max` may be 0: no session is then kept without
    /// a connection.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new("sessions");
        check.count("sessions_max", self.sessions_max, usize::MAX);
        check.finish()
    }

    /// When and where idle sessions leave memory.
    pub(crate) fn hibernation(&self) -> HibernationSettings {
        let when = match self.hibernate_after_ms {
            _ if self.hibernate_every_turn => HibernateWhen::EveryTurn,
            0 => HibernateWhen::Never,
            after => HibernateWhen::Idle(Duration::from_millis(after).min(DURATION_MAX)),
        };
        let folder = self.hibernate_folder.clone();
        HibernationSettings { when, folder, bytes_max: self.hibernated_bytes_max }
    }
}

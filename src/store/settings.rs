//! `[state]`: where sessions are kept beyond the life of the server.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{DURATION_MAX, SettingCheck, SettingsError};

/// What an answer survives once a client has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The end of the process, however it comes.
    #[default]
    Process,
    /// The loss of power too.
    Disk,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StateSettings {
    /// The folder. Absent: sessions end with the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-path" = true, "x-example" = "state"))]
    pub dir: Option<PathBuf>,
    /// The key that seals the images of sessions, 64 hexadecimal digits in a file that only its owner can read. Absent: a
    /// key in the folder itself, which protects nothing from a thief of the folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-path" = true, "x-example" = "/etc/scomp/state.key"))]
    pub key_file: Option<PathBuf>,
    /// What an answer survives: `process`, the end of the process, or `disk`, the loss of power too.
    pub durability: Durability,
    /// Bytes on disk for the sessions of one principal.
    pub principal_bytes_max: u64,
    /// Bytes on disk for all sessions.
    pub bytes_max: u64,
    /// How long a server that starts waits for one that still has the folder, in milliseconds.
    pub takeover_ms: u64,
}

impl Default for StateSettings {
    fn default() -> Self {
        Self {
            dir: None,
            key_file: None,
            durability: Durability::Process,
            // 10,000 ordinary sessions, or 40 with the largest heaps.
            principal_bytes_max: 8 << 30,
            bytes_max: 64 << 30,
            // Longer than a server needs to stop that has nothing to drain.
            takeover_ms: 5_000,
        }
    }
}

impl StateSettings {
    /// Whether a server with these settings can store anything.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new("state");
        check.count("principal_bytes_max", self.principal_bytes_max as usize, usize::MAX);
        check.count("bytes_max", self.bytes_max as usize, usize::MAX);
        check.finish()
    }

    pub(crate) fn takeover(&self) -> Duration {
        Duration::from_millis(self.takeover_ms).min(DURATION_MAX)
    }
}

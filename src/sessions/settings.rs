//! How long sessions live and how many there may be.

use crate::limits::{SettingCheck, SettingsError};

/// See the module.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSettings {
    /// Sessions on this server. Past it: `Busy`.
    pub sessions_max: usize,
    /// How long a session without connection is kept, in milliseconds.
    pub ttl_ms: u64,
    /// Sessions without connection that are kept, in equal parts for the principals that have tokens. Past its part a
    /// principal loses the one of its own that has been detached longest, never one of another.
    pub detached_max: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { sessions_max: 20_000, ttl_ms: 600_000, detached_max: 10_000 }
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
}

//! `[mcp]`: what an operator may set about code mode for MCP clients.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::oauth::OauthSettings;
use crate::limits::{DURATION_MS_MAX, SettingCheck, SettingsError};

/// `[mcp]`: the MCP endpoint. Its counts and bytes are those of one principal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    /// Whether `/mcp` is served.
    pub enabled: bool,
    /// Sessions. At the limit the one that was unused for longest is closed, if it was unused for a minute.
    pub sessions_max: usize,
    /// How long a session is kept that is not used, in milliseconds.
    pub session_idle_ms: u64,
    /// Executions, those that are over included. At the limit the oldest of these is forgotten.
    pub executions_max: usize,
    /// How long the outcome of an execution is kept, in milliseconds.
    pub execution_kept_ms: u64,
    /// Longest wait of one call, in milliseconds; a longer `waitMs` is cut.
    pub wait_ms_max: u64,
    /// Calls that wait concurrently.
    pub waits_max: usize,
    /// Largest value in a result, as JSON. A larger one becomes a resource.
    pub value_bytes_max: usize,
    /// Console output in one result; of more the end is shown.
    pub console_bytes_max: usize,
    /// Resources of large values. At the limit the oldest ones are forgotten.
    pub artifacts_bytes_max: usize,
    /// Connections of clients of revision 2025-11-25 and older, which have a session of the protocol.
    pub connections_max: usize,
    /// Access tokens of an authorization server, beside the tokens of `[auth]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthSettings>,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            sessions_max: 32,
            session_idle_ms: 1_800_000,
            executions_max: 256,
            execution_kept_ms: 600_000,
            wait_ms_max: 300_000,
            waits_max: 64,
            // What a model reads of a value costs it tokens: 32 KiB are about ten thousand.
            value_bytes_max: 32 << 10,
            console_bytes_max: 16 << 10,
            artifacts_bytes_max: 64 << 20,
            connections_max: 64,
            oauth: None,
        }
    }
}

impl McpSettings {
    /// Whether a server with these settings can serve anything.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new("mcp");
        check.count("sessions_max", self.sessions_max, usize::MAX);
        check.count("executions_max", self.executions_max, usize::MAX);
        check.count("waits_max", self.waits_max, tokio::sync::Semaphore::MAX_PERMITS);
        check.count("connections_max", self.connections_max, usize::MAX);
        check.count("value_bytes_max", self.value_bytes_max, usize::MAX);
        check.count("console_bytes_max", self.console_bytes_max, usize::MAX);
        for (name, milliseconds) in [
            ("session_idle_ms", self.session_idle_ms),
            ("execution_kept_ms", self.execution_kept_ms),
            ("wait_ms_max", self.wait_ms_max),
        ] {
            check.count(name, usize::try_from(milliseconds).unwrap_or(usize::MAX), DURATION_MS_MAX as usize);
        }
        check.finish()
    }

    pub(super) fn session_idle(&self) -> Duration {
        Duration::from_millis(self.session_idle_ms)
    }

    pub(super) fn execution_kept(&self) -> Duration {
        Duration::from_millis(self.execution_kept_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_serve_nothing_are_refused() {
        assert!(McpSettings::default().check().is_ok());
        let refused = McpSettings { sessions_max: 0, wait_ms_max: 0, ..McpSettings::default() }.check();
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("mcp.sessions_max") && text.contains("mcp.wait_ms_max"), "{text}");
    }
}

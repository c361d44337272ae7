//! The effects of the machine, and the step in which one input produces them.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::GatewayError;
use super::super::sessions::SessionStore;
use super::super::wire;

/// An action for the driver.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    Send { to: ConnectionId, frame: Value },
    Close { to: ConnectionId, code: u16, reason: String },
    Audit(AuditRecord),
}

/// A line of the audit log: sender, receiver, type and outcome of a frame, never its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditRecord {
    pub(crate) client_id: String,
    /// Whether the connection had authenticated.
    pub(crate) is_authenticated: bool,
    pub(crate) kind: &'static str,
    pub(crate) id: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) outcome: &'static str,
}

/// What the machine needs to handle one input: the time, the stored sessions, and a list for the
/// effects.
pub(crate) struct Step<'a> {
    pub(crate) now_ms: u64,
    pub(crate) sessions: &'a mut dyn SessionStore,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Step<'_> {
    pub(super) fn send(&mut self, to: ConnectionId, frame: Value) {
        self.effects.push(Effect::Send { to, frame });
    }

    /// Sends an agent its copy of a frame with several receivers.
    pub(super) fn send_copy(&mut self, to: ConnectionId, agent: &str, frame: &Value) {
        let mut copy = frame.clone();
        copy["agent"] = json!(agent);
        self.send(to, copy);
    }

    /// Sends a frame before the effects that were added since `mark`, a number of effects.
    pub(super) fn send_at(&mut self, mark: usize, to: ConnectionId, frame: Value) {
        self.effects.insert(mark.min(self.effects.len()), Effect::Send { to, frame });
    }

    pub(super) fn send_error(
        &mut self,
        to: ConnectionId,
        error: &GatewayError,
        correlation_id: Option<&str>,
    ) {
        let frame = wire::error_frame(error, correlation_id, self.now_ms);
        self.send(to, frame);
    }

    pub(super) fn close(&mut self, to: ConnectionId, code: u16, reason: &str) {
        self.effects.push(Effect::Close { to, code, reason: reason.to_owned() });
    }
}

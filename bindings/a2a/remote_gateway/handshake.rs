//! The handshake of a link.
//!
//! The link sends a handshake, its token, a ping, and a second handshake. The pong, or the second
//! acknowledgement, shows that everything before it was handled, including the token. Which of the
//! two arrives shows how this gateway acknowledges: one that does not support `ping`, like the
//! reference gateway of the specification (11.2), acknowledges a handshake at any time.

use serde_json::{Value, json};

use super::super::wire::{FrameType, PROTOCOL_VERSION};

/// The type of frame that a gateway acknowledges at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FenceKind {
    Ping,
    Handshake,
}

impl FenceKind {
    pub(super) fn to_frame(self, correlation_id: &str) -> Value {
        let mut frame = match self {
            Self::Ping => json!({"type": FrameType::Ping.name()}),
            Self::Handshake => handshake_frame(),
        };
        frame["metadata"] = json!({"correlationId": correlation_id});
        frame
    }
}

pub(super) fn first_frames(token: Option<&str>) -> Vec<Value> {
    let auth = token.map(|token| json!({"type": FrameType::Auth.name(), "content": {"token": token}}));
    let probes = [FenceKind::Ping.to_frame("probe-ping"), FenceKind::Handshake.to_frame("probe-handshake")];
    [handshake_frame()].into_iter().chain(auth).chain(probes).collect()
}

fn handshake_frame() -> Value {
    let capabilities = json!({"version": PROTOCOL_VERSION});
    json!({
        "type": FrameType::Handshake.name(),
        "content": {"action": "advertise", "capabilities": capabilities}
    })
}

/// The state of a handshake.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    acknowledgements: usize,
    /// Some gateways send a `welcome` and do not support handshakes.
    has_welcome: bool,
    has_pong: bool,
    client_id: Option<String>,
}

impl Handshake {
    /// Returns how the gateway acknowledges, and the client id that it assigned, once the handshake
    /// is complete.
    pub(super) fn on_frame(&mut self, frame: &Value) -> Option<(FenceKind, Option<String>)> {
        match frame["type"].as_str() {
            Some("handshake") => self.acknowledgements += 1,
            Some("welcome") => self.has_welcome = true,
            Some("pong") => self.has_pong = true,
            _ => return None,
        }
        let assigned =
            [&frame["content"]["clientId"], &frame["clientId"]].into_iter().find_map(Value::as_str);
        if let (None, Some(id)) = (&self.client_id, assigned) {
            self.client_id = Some(id.to_owned());
        }
        let is_accepted = self.has_welcome || self.acknowledgements > 0;
        let fence = match (is_accepted && self.has_pong, self.acknowledgements) {
            (true, _) => FenceKind::Ping,
            (false, 2..) => FenceKind::Handshake,
            (false, _) => return None,
        };
        Some((fence, self.client_id.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(frames: &[Value]) -> Option<(FenceKind, Option<String>)> {
        let mut handshake = Handshake::default();
        frames.iter().find_map(|frame| handshake.on_frame(frame))
    }

    fn acknowledgement() -> Value {
        json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "client-1"}})
    }

    #[test]
    fn handshake_with_ping_completes_with_the_pong() {
        let (ack, pong) = (acknowledgement(), json!({"type": "pong"}));
        assert_eq!(run(std::slice::from_ref(&ack)), None);
        let complete = Some((FenceKind::Ping, Some("client-1".to_owned())));
        assert_eq!(run(&[ack, json!({"type": "auth-response"}), pong]), complete);
    }

    #[test]
    fn handshake_without_ping_completes_with_the_second_ack() {
        let unknown = json!({"type": "error", "content": {"error": "UNKNOWN_TYPE"}});
        let complete = Some((FenceKind::Handshake, Some("client-1".to_owned())));
        assert_eq!(run(&[acknowledgement(), unknown, acknowledgement()]), complete);
        assert_eq!(run(&[acknowledgement(), acknowledgement()]), complete, "unknown types are ignored");
    }

    #[test]
    fn pong_alone_does_not_complete_the_handshake() {
        let pong = json!({"type": "pong"});
        assert_eq!(run(&[pong.clone(), json!({"type": "status"}), pong.clone()]), None);
        let welcome = json!({"type": "welcome", "clientId": "gw-1"});
        assert_eq!(run(&[welcome, pong]), Some((FenceKind::Ping, Some("gw-1".to_owned()))));
    }

    #[test]
    fn token_is_sent_before_the_probes() {
        let types = |token| -> Vec<String> {
            let frames = first_frames(token).into_iter();
            frames.map(|frame| frame["type"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(types(None), ["handshake", "ping", "handshake"]);
        assert_eq!(types(Some("t")), ["handshake", "auth", "ping", "handshake"]);
    }
}

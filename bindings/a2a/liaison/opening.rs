//! The first frames of a link, until the handshake is complete.
//!
//! The gateway is greeted, shown the token, pinged, and greeted a second time. The pong, or the second
//! acknowledgement, comes after everything before it was dealt with, the token too. Which of the two came tells how
//! this gateway acknowledges: one that knows no `ping`, as the reference gateway of the specification (11.2), answers
//! a handshake at any time.

use serde_json::{Value, json};

use super::super::wire::{PROTOCOL_VERSION, Type};

/// What a gateway answers whatever came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FenceKind {
    Ping,
    Handshake,
}

impl FenceKind {
    pub(super) fn frame(self, correlation_id: &str) -> Value {
        let mut frame = match self {
            Self::Ping => json!({"type": Type::Ping.name()}),
            Self::Handshake => handshake(),
        };
        frame["metadata"] = json!({"correlationId": correlation_id});
        frame
    }
}

/// What a link sends first.
pub(super) fn greeting(token: Option<&str>) -> Vec<Value> {
    let auth = token.map(|token| json!({"type": Type::Auth.name(), "content": {"token": token}}));
    let probes = [FenceKind::Ping.frame("probe-ping"), FenceKind::Handshake.frame("probe-handshake")];
    [handshake()].into_iter().chain(auth).chain(probes).collect()
}

fn handshake() -> Value {
    let capabilities = json!({"version": PROTOCOL_VERSION});
    json!({
        "type": Type::Handshake.name(),
        "content": {"action": "advertise", "capabilities": capabilities}
    })
}

/// What the gateway has said so far.
#[derive(Debug, Default)]
pub(super) struct Opening {
    acknowledgements: usize,
    /// A gateway that greets by itself knows no handshake.
    is_welcome: bool,
    has_ponged: bool,
    client_id: Option<String>,
}

impl Opening {
    /// Returns how the gateway acknowledges and what it calls us, once the handshake is complete.
    pub(super) fn on_frame(&mut self, frame: &Value) -> Option<(FenceKind, Option<String>)> {
        match frame["type"].as_str() {
            Some("handshake") => self.acknowledgements += 1,
            Some("welcome") => self.is_welcome = true,
            Some("pong") => self.has_ponged = true,
            _ => return None,
        }
        let named = [&frame["content"]["clientId"], &frame["clientId"]].into_iter().find_map(Value::as_str);
        if let (None, Some(id)) = (&self.client_id, named) {
            self.client_id = Some(id.to_owned());
        }
        let is_greeted = self.is_welcome || self.acknowledgements > 0;
        let fence = match (is_greeted && self.has_ponged, self.acknowledgements) {
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

    fn outcome(frames: &[Value]) -> Option<(FenceKind, Option<String>)> {
        let mut opening = Opening::default();
        frames.iter().find_map(|frame| opening.on_frame(frame))
    }

    fn acknowledgement() -> Value {
        json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "client-1"}})
    }

    #[test]
    fn opening_with_ping_is_complete_with_the_pong() {
        let (ack, pong) = (acknowledgement(), json!({"type": "pong"}));
        assert_eq!(outcome(std::slice::from_ref(&ack)), None);
        let complete = Some((FenceKind::Ping, Some("client-1".to_owned())));
        assert_eq!(outcome(&[ack, json!({"type": "auth-response"}), pong]), complete);
    }

    #[test]
    fn opening_without_ping_is_complete_with_the_second_acknowledgement() {
        let unknown = json!({"type": "error", "content": {"error": "UNKNOWN_TYPE"}});
        let complete = Some((FenceKind::Handshake, Some("client-1".to_owned())));
        assert_eq!(outcome(&[acknowledgement(), unknown, acknowledgement()]), complete);
        assert_eq!(outcome(&[acknowledgement(), acknowledgement()]), complete, "unknown types are ignored");
    }

    #[test]
    fn opening_needs_a_greeting() {
        let pong = json!({"type": "pong"});
        assert_eq!(outcome(&[pong.clone(), json!({"type": "status"}), pong.clone()]), None);
        let welcome = json!({"type": "welcome", "clientId": "gw-1"});
        assert_eq!(outcome(&[welcome, pong]), Some((FenceKind::Ping, Some("gw-1".to_owned()))));
    }

    #[test]
    fn greeting_shows_the_token_before_the_probes() {
        let types = |token| -> Vec<String> {
            let frames = greeting(token).into_iter();
            frames.map(|frame| frame["type"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(types(None), ["handshake", "ping", "handshake"]);
        assert_eq!(types(Some("t")), ["handshake", "auth", "ping", "handshake"]);
    }
}

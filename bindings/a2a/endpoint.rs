//! WebSocket connections of the gateway: texts go to its thread, deliveries come back.

use std::pin::Pin;
use std::time::Instant;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use super::ConnectionId;
use super::codes::{ErrorCode, GatewayError};
use super::delivery::{Delivery, delivery_channel};
use super::driver::{GatewayHandle, Input, now_ms};
use super::journal::JOURNAL_BYTES_MAX;
use super::machine::ClientInfo;
use super::owner::Owner;
use super::wire;
use crate::peering::{Conversation, Disconnect, Endpoint, IncomingConnection, Outbox, pump};
use crate::transport::close_code;

/// The WebSocket subprotocol.
pub(crate) const SUBPROTOCOL: &str = "a2a-v1";

/// The header in which agents of the older gateway send their name.
const AGENT_HEADER: &str = "x-agent-id";

/// Longest message that the gateway sends: all entries of a full workspace, and the frame around
/// them.
pub(crate) const SENT_BYTES_MAX: usize = JOURNAL_BYTES_MAX as usize + (1 << 20);

#[derive(Debug)]
pub(crate) struct GatewayEndpoint {
    pub(crate) gateway: GatewayHandle,
    pub(crate) message_bytes_max: usize,
}

impl Endpoint for GatewayEndpoint {
    fn subprotocol(&self) -> Option<&'static str> {
        Some(SUBPROTOCOL)
    }

    fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    fn sent_bytes_max(&self) -> usize {
        SENT_BYTES_MAX
    }

    fn serve(&self, incoming: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let gateway = self.gateway.clone();
        Box::pin(async move {
            let owner = Owner::Principal(incoming.principal.name.clone());
            let client =
                ClientInfo { owner, ..read_client_info(incoming.query.as_deref(), &incoming.headers) };
            let stop = incoming.stop.child_token();
            let (deliveries, mut deliveries_rx) = delivery_channel(stop.clone());
            let Ok(id) = gateway.open(client, deliveries).await else { return };
            let mut socket = ClientSocket { gateway: gateway.clone(), id };
            let mut transport = incoming.transport;
            pump(&mut transport, &mut socket, &mut deliveries_rx, &stop).await;
            // Sent here and not by the conversation, because this can wait for room.
            let _ = gateway.send(Input::Close { id }).await;
        })
    }
}

/// Reads token and agent from the query or the headers.
fn read_client_info(query: Option<&str>, headers: &HeaderMap) -> ClientInfo {
    let in_query = |wanted: &str| {
        let pairs = url::form_urlencoded::parse(query?.as_bytes());
        pairs.into_iter().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let in_header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let registered_owner = in_header(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    ClientInfo {
        token: in_query("token").or_else(|| registered_owner.map(str::to_owned)),
        agent: in_query("agentId").or_else(|| in_header(AGENT_HEADER).map(str::to_owned)),
        ..ClientInfo::default()
    }
}

struct ClientSocket {
    gateway: GatewayHandle,
    id: ConnectionId,
}

impl ClientSocket {
    /// Refuses a frame while the input queue of the gateway is full.
    fn send_busy(out: &mut Outbox) {
        let error = GatewayError::new(ErrorCode::AgentBusy, "the gateway is overloaded");
        out.send(wire::error_frame(&error, None, now_ms()).to_string());
    }
}

impl Conversation for ClientSocket {
    type Command = Delivery;

    fn on_open(&mut self, _: Instant, _: &mut Outbox) {}

    fn on_text(&mut self, text: &str, _: Instant, out: &mut Outbox) {
        if !self.gateway.try_send_text(self.id, text) {
            Self::send_busy(out);
        }
    }

    /// JSON in a binary frame is read like a text.
    fn on_binary(&mut self, bytes: &[u8], now: Instant, out: &mut Outbox) {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return self.on_text(text, now, out);
        }
        if self.gateway.try_send(Input::Binary { id: self.id }).is_err() {
            Self::send_busy(out);
        }
    }

    fn on_command(&mut self, delivery: Delivery, _: Instant, out: &mut Outbox) {
        match delivery {
            Delivery::Frame(frame) => out.send(frame.to_string()),
            Delivery::Close { code, reason } => out.close(code, reason),
        }
    }

    /// When the server stops, clients get the reason in a `disconnect` frame.
    fn on_closing(&mut self, disconnect: &Disconnect, out: &mut Outbox) {
        if matches!(disconnect, Disconnect::Close { code: close_code::GOING_AWAY, .. }) {
            out.send(wire::disconnect_frame("shutdown").to_string());
        }
    }

    fn on_end(&mut self, _: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_info_is_read_from_query_or_headers() {
        let none = HeaderMap::new();
        let client = read_client_info(Some("token=a%20b&agentId=coder"), &none);
        assert_eq!((client.token.as_deref(), client.agent.as_deref()), (Some("a b"), Some("coder")));
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, "Bearer t".parse().unwrap());
        headers.insert(AGENT_HEADER, "alpha".parse().unwrap());
        let client = read_client_info(None, &headers);
        assert_eq!((client.token.as_deref(), client.agent.as_deref()), (Some("t"), Some("alpha")));
        assert_eq!(read_client_info(None, &none).token, None);
    }
}

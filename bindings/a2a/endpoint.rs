//! A socket of the gateway: texts go to its thread, and what it has for us comes back.

use std::pin::Pin;
use std::time::Instant;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use super::ConnectionId;
use super::codes::{ErrorCode, Refusal};
use super::driver::{GatewayHandle, Input, now_ms};
use super::journal::JOURNAL_BYTES_MAX;
use super::machine::Arrival;
use super::outlet::{Delivery, outlet};
use super::owner::Owner;
use super::wire;
use crate::peering::{Conversation, Disconnect, Endpoint, IncomingConnection, Outbox, pump};
use crate::transport::close_code;

/// The WebSocket subprotocol.
pub(crate) const SUBPROTOCOL: &str = "a2a-v1";

/// The header with which agents of the older gateway say who they are.
const AGENT_HEADER: &str = "x-agent-id";

/// Longest message that is sent: all entries of a full workspace, and a little around them.
pub(crate) const SENT_BYTES_MAX: usize = JOURNAL_BYTES_MAX as usize + (1 << 20);

/// Where clients come in.
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

    /// The longest answer is a whole session.
    fn sent_bytes_max(&self) -> usize {
        SENT_BYTES_MAX
    }

    fn serve(&self, visit: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let gateway = self.gateway.clone();
        Box::pin(async move {
            let owner = Owner::Principal(visit.principal.name.clone());
            let arrival = Arrival { owner, ..arrival(visit.query.as_deref(), &visit.headers) };
            let stop = visit.stop.child_token();
            let (outlet, mut deliveries_rx) = outlet(stop.clone());
            let Ok(id) = gateway.open(arrival, outlet).await else { return };
            let mut client = Client { gateway: gateway.clone(), id };
            let mut transport = visit.transport;
            pump(&mut transport, &mut client, &mut deliveries_rx, &stop).await;
            // Said here and not in the conversation, because this can wait for room.
            let _ = gateway.send(Input::End { id }).await;
        })
    }
}

/// What a connection says of itself before its first frame.
fn arrival(query: Option<&str>, headers: &HeaderMap) -> Arrival {
    let in_query = |wanted: &str| {
        let pairs = url::form_urlencoded::parse(query?.as_bytes());
        pairs.into_iter().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let in_header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = in_header(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    Arrival {
        token: in_query("token").or_else(|| bearer.map(str::to_owned)),
        agent: in_query("agentId").or_else(|| in_header(AGENT_HEADER).map(str::to_owned)),
        ..Arrival::default()
    }
}

struct Client {
    gateway: GatewayHandle,
    id: ConnectionId,
}

impl Client {
    /// Under a load that the gateway cannot take, it says so rather than keep everything.
    fn answer_busy(out: &mut Outbox) {
        let refusal = Refusal::new(ErrorCode::AgentBusy, "the gateway has too much to do");
        out.send(wire::error(&refusal, None, now_ms()).to_string());
    }
}

impl Conversation for Client {
    type Command = Delivery;

    fn on_open(&mut self, _: Instant, _: &mut Outbox) {}

    fn on_text(&mut self, text: &str, _: Instant, out: &mut Outbox) {
        if !self.gateway.try_text(self.id, text) {
            Self::answer_busy(out);
        }
    }

    /// A reader of JSON takes the bytes of a text in whatever frame they come.
    fn on_binary(&mut self, bytes: &[u8], now: Instant, out: &mut Outbox) {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return self.on_text(text, now, out);
        }
        if self.gateway.try_send(Input::Binary { id: self.id }).is_err() {
            Self::answer_busy(out);
        }
    }

    fn on_command(&mut self, delivery: Delivery, _: Instant, out: &mut Outbox) {
        match delivery {
            Delivery::Frame(frame, _) => out.send(frame.to_string()),
            Delivery::Close { code, reason } => out.close(code, reason),
        }
    }

    /// A client whose connection ends because the server stops gets the reason first.
    fn on_closing(&mut self, parting: &Disconnect, out: &mut Outbox) {
        if matches!(parting, Disconnect::Close { code: close_code::GOING_AWAY, .. }) {
            out.send(wire::disconnect("shutdown").to_string());
        }
    }

    fn on_end(&mut self, _: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_may_say_who_it_is_in_the_address_or_in_headers() {
        let none = HeaderMap::new();
        let said = arrival(Some("token=a%20b&agentId=coder"), &none);
        assert_eq!((said.token.as_deref(), said.agent.as_deref()), (Some("a b"), Some("coder")));
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, "Bearer t".parse().unwrap());
        headers.insert(AGENT_HEADER, "alpha".parse().unwrap());
        let said = arrival(None, &headers);
        assert_eq!((said.token.as_deref(), said.agent.as_deref()), (Some("t"), Some("alpha")));
        assert_eq!(arrival(None, &none).token, None);
    }
}

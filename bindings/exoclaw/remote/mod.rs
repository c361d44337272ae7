//! Remote gateways, for scripts: one link to each for short calls, and a separate connection for
//! each chat.
//!
//! A gateway serves the requests of a connection one after another, and only the end of the
//! connection stops a stream. On a shared connection, the chat of one session would delay all
//! others, and cancelling it would end them too.

pub(crate) mod chat;
mod connection;
mod machine;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use self::connection::{Command, GatewayConnection};
use self::machine::Answer;
use super::config::GatewayConfig;
use crate::binding::BindingError;
use crate::peering::{Background, Link, LinkSettings, LinkState, link};
use crate::protocol::plain::from_plain;
use crate::rpc::Kind;
use crate::transport::Dial;

/// Longest message that is read from a gateway. An event may contain the result of a tool.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Most concurrent chats with one gateway, over all sessions. Each is a connection.
pub(crate) const CHATS_MAX: usize = 64;

/// How long to wait for the answer to a short call, which never waits behind a chat.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct RemoteGateway {
    name: String,
    link: Link<Command>,
    dial: Dial,
    token: Option<String>,
    chats: Arc<Semaphore>,
}

/// The configured remote gateways, by name.
#[derive(Default)]
pub(crate) struct RemoteGateways(BTreeMap<String, Arc<RemoteGateway>>);

impl RemoteGateways {
    /// Also returns the tasks that keep the links connected.
    pub(crate) fn new(configs: BTreeMap<String, GatewayConfig>) -> (Self, Vec<Background>) {
        let mut background = Vec::new();
        let mut gateways = BTreeMap::new();
        for (name, GatewayConfig { url, token }) in configs {
            let dial = Dial { url, message_bytes_max: MESSAGE_BYTES_MAX, ..Dial::default() };
            let token = token.filter(|token| !token.is_empty());
            let connection = GatewayConnection::new(&name, token.clone());
            let (link, keep_connected) = link(LinkSettings::new(&name, dial.clone()), |_| connection);
            background.push(keep_connected);
            let chats = Arc::new(Semaphore::new(CHATS_MAX));
            gateways.insert(name.clone(), Arc::new(RemoteGateway { name, link, dial, token, chats }));
        }
        (Self(gateways), background)
    }

    /// Finds a gateway by name. The name may be absent if there is only one gateway.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Arc<RemoteGateway>, BindingError> {
        let found = match name {
            Some(name) => self.0.get(name),
            None => self.0.values().next().filter(|_| self.0.len() == 1),
        };
        found.cloned().ok_or_else(|| {
            let known = self.0.keys().map(String::as_str).collect::<Vec<&str>>().join(", ");
            let message = match name {
                Some(name) => format!("unknown gateway `{name}`; expected one of: {known}"),
                None => format!("gateway: expected one of: {known}"),
            };
            BindingError::of_kind(Kind::InvalidInput, message)
        })
    }

    /// Returns the names of the gateways and the states of their links.
    pub(crate) fn list(&self) -> Value {
        let entries = self.0.values().map(|gateway| {
            let mut entry = gateway.link.state().to_json();
            entry["name"] = json!(gateway.name);
            entry
        });
        entries.collect()
    }
}

impl RemoteGateway {
    /// Calls a method that has a single response, over the link.
    pub(crate) async fn call(&self, method: &'static str) -> Result<Value, BindingError> {
        let (answers_tx, mut answers_rx) = mpsc::channel(1);
        let command = Command { method, params: None, answers_tx };
        self.link.send(command).await.map_err(|down| self.peer_gone(&down.to_string()))?;
        match tokio::time::timeout(CALL_TIMEOUT, answers_rx.recv()).await {
            Ok(Some(Answer::Response(Ok(result)))) => Ok(from_plain(result)),
            Ok(Some(Answer::Response(Err(error)))) => {
                Err(BindingError::new(format!("{}: {error}", self.name)))
            }
            Ok(Some(Answer::Event { event, .. })) => {
                Err(self.peer_gone(&format!("`{method}`: expected a response, got the event `{event}`")))
            }
            Ok(Some(Answer::Lost(reason))) => Err(self.peer_gone(&reason)),
            Ok(None) => Err(self.peer_gone(&self.link_error())),
            Err(_) => {
                let message = format!("{}: no response within {} s", self.name, CALL_TIMEOUT.as_secs());
                Err(BindingError::of_kind(Kind::Timeout, message))
            }
        }
    }

    /// Why the link is down, as far as it is known.
    fn link_error(&self) -> String {
        match self.link.state() {
            LinkState::GivenUp { reason } => reason,
            LinkState::Down { error: Some(error) } => error,
            LinkState::Down { error: None } | LinkState::Connecting | LinkState::Up => {
                "the connection was lost".to_owned()
            }
        }
    }

    fn peer_gone(&self, reason: &str) -> BindingError {
        BindingError::of_kind(Kind::PeerGone, format!("{}: {reason}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One gateway that cannot be reached.
    fn gateways() -> RemoteGateways {
        let config = GatewayConfig { url: "ws://127.0.0.1:9/ws".to_owned(), token: None };
        RemoteGateways::new(BTreeMap::from([("nowhere".to_owned(), config)])).0
    }

    #[tokio::test]
    async fn chats_past_the_limit_are_rejected() {
        let gateway = gateways().find(None).unwrap();
        let chats = Arc::clone(&gateway.chats);
        let others = chats.clone().try_acquire_many_owned(u32::try_from(CHATS_MAX - 1).unwrap()).unwrap();
        let last = Arc::clone(&gateway).chat(json!({}), None, 0).await.unwrap_err();
        assert_eq!(last.kind(), Some("PeerGone"));
        let _last = chats.try_acquire_owned().unwrap();
        let excess = gateway.chat(json!({}), None, 0).await.unwrap_err();
        assert_eq!(excess.kind(), Some("Busy"));
        drop(others);
    }

    #[tokio::test]
    async fn call_over_a_down_link_fails_immediately() {
        let failed = gateways().find(Some("nowhere")).unwrap().call("ping").await.unwrap_err();
        assert_eq!((failed.kind(), failed.own_message()), (Some("PeerGone"), "nowhere: not connected"));
    }
}

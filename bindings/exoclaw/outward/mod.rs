//! Gateways elsewhere, for scripts: a link to each for the short calls, and a connection of its own for each chat.
//!
//! A gateway serves the requests of a connection one after another, and nothing but the end of the connection stops a
//! stream. On a shared connection one session's chat would hold up all others, and cancelling it would cut them off.

mod caller;
pub(crate) mod chat;
mod machine;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use self::caller::{Caller, Command};
use self::machine::Answer;
use super::config::Peer;
use crate::binding::BindingError;
use crate::peering::{Background, Link, LinkSettings, LinkState, link};
use crate::protocol::plain::from_plain;
use crate::rpc::Kind;
use crate::transport::Dial;

/// Longest message that is read from a gateway: one event, which may hold the result of a tool.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Chats with one gateway at once, over all sessions: each is a connection.
pub(crate) const CHATS_MAX: usize = 64;

/// How long a gateway may take to answer a short call: behind a chat of its own it never has to wait.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(20);

/// A gateway of the configuration.
pub(crate) struct Gateway {
    name: String,
    link: Link<Command>,
    dial: Dial,
    token: Option<String>,
    chats: Arc<Semaphore>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Gateways(BTreeMap<String, Arc<Gateway>>);

impl Gateways {
    /// Those of the configuration, and the work that keeps their links up.
    pub(crate) fn new(peers: BTreeMap<String, Peer>) -> (Self, Vec<Background>) {
        let mut background = Vec::new();
        let mut gateways = BTreeMap::new();
        for (name, Peer { url, token }) in peers {
            let dial = Dial { url, message_bytes_max: MESSAGE_BYTES_MAX, ..Dial::default() };
            let token = token.filter(|token| !token.is_empty());
            let caller = Caller::new(&name, token.clone());
            let (link, work) = link(LinkSettings::new(&name, dial.clone()), |_| caller);
            background.push(work);
            let chats = Arc::new(Semaphore::new(CHATS_MAX));
            gateways.insert(name.clone(), Arc::new(Gateway { name, link, dial, token, chats }));
        }
        (Self(gateways), background)
    }

    /// The gateway of that name; without one, the only one there is.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Arc<Gateway>, BindingError> {
        let found = match name {
            Some(name) => self.0.get(name),
            None => self.0.values().next().filter(|_| self.0.len() == 1),
        };
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let message = match name {
                Some(name) => format!("no gateway is called `{name}`; there are: {}", known.join(", ")),
                None => format!("expected `gateway`, one of: {}", known.join(", ")),
            };
            BindingError::of_kind(Kind::InvalidInput, message)
        })
    }

    /// Their names and where their links stand.
    pub(crate) fn list(&self) -> Value {
        let described = self.0.values().map(|gateway| {
            let mut state = gateway.link.state().to_json();
            state["name"] = json!(gateway.name);
            state
        });
        described.collect()
    }
}

impl Gateway {
    /// A call with one answer, over the link.
    pub(crate) async fn call(&self, method: &'static str) -> Result<Value, BindingError> {
        let (answers_tx, mut answers_rx) = mpsc::channel(1);
        let command = Command { method, params: None, answers_tx };
        self.link.send(command).await.map_err(|down| self.unreachable(&down.to_string()))?;
        match tokio::time::timeout(ANSWER_WAIT_MAX, answers_rx.recv()).await {
            Ok(Some(Answer::Outcome(Ok(result)))) => Ok(from_plain(result)),
            Ok(Some(Answer::Outcome(Err(error)))) => {
                Err(BindingError::new(format!("{}: {error}", self.name)))
            }
            Ok(Some(Answer::Event { event, .. })) => {
                Err(self.unreachable(&format!("`{method}` was answered with the event `{event}`")))
            }
            Ok(Some(Answer::Lost(why))) => Err(self.unreachable(&why)),
            Ok(None) => Err(self.unreachable(&self.why_lost())),
            Err(_) => {
                let message = format!("{}: no answer within {} s", self.name, ANSWER_WAIT_MAX.as_secs());
                Err(BindingError::of_kind(Kind::Timeout, message))
            }
        }
    }

    fn why_lost(&self) -> String {
        match self.link.state() {
            LinkState::GivenUp { reason } => reason,
            LinkState::Down { error: Some(error) } => error,
            LinkState::Down { error: None } | LinkState::Connecting | LinkState::Up => {
                "the connection was lost".to_owned()
            }
        }
    }

    fn unreachable(&self, why: &str) -> BindingError {
        BindingError::of_kind(Kind::PeerGone, format!("{}: {why}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateways() -> Gateways {
        let nowhere = Peer { url: "ws://127.0.0.1:9/ws".to_owned(), token: None };
        Gateways::new(BTreeMap::from([("nowhere".to_owned(), nowhere)])).0
    }

    #[tokio::test]
    async fn so_many_chats_may_be_under_way_and_one_more_is_refused() {
        let gateway = gateways().find(None).unwrap();
        let chats = Arc::clone(&gateway.chats);
        let one_less = chats.clone().try_acquire_many_owned(u32::try_from(CHATS_MAX - 1).unwrap()).unwrap();
        let last = Arc::clone(&gateway).chat(json!({}), None, 0).await.unwrap_err();
        assert_eq!(last.kind(), Some("PeerGone"));
        let _last = chats.try_acquire_owned().unwrap();
        let refused = gateway.chat(json!({}), None, 0).await.unwrap_err();
        assert_eq!(refused.kind(), Some("Busy"));
        drop(one_less);
    }

    #[tokio::test]
    async fn a_call_over_a_link_that_is_down_fails_at_once() {
        let failed = gateways().find(Some("nowhere")).unwrap().call("ping").await.unwrap_err();
        assert_eq!((failed.kind(), failed.own_message()), (Some("PeerGone"), "nowhere: not connected"));
    }
}

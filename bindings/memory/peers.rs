//! The servers that scripts can reach: the embedded store, and those that the operator named.
//!
//! The embedded one is spoken to in the same protocol, over a connection inside the process, so a script cannot tell
//! the two apart and there is one client to get right.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::auth::{Identity, is_identity};
use super::client::{Ask, Client, ClientError, Manner, Mounted, Reply, Signer};
use super::codec::{Data, Dialect};
use super::config::{Config, PeerConfig, PeerDialect, SharedSpaces};
use super::endpoint::{Admission, MESSAGE_BYTES_MAX, Visitor};
use super::engine::Engine;
use super::names::{is_space_name, script_space};
use super::outlet::outlet;
use crate::peering::{Background, Host, Link, LinkSettings, commands, link, pump};
use crate::transport::{Dial, pair};

/// Messages that wait between the two ends of the connection inside the process.
const PAIR_MESSAGES_MAX: usize = 256;

/// Principals whose keys are kept; they are worked out again when they come back.
const SIGNERS_MAX: usize = 10_000;

enum Way {
    Embedded(mpsc::Sender<Ask>),
    Peer(Link<Ask>),
}

/// All of them. Cheap to share.
pub(super) struct Peers {
    secret: Vec<u8>,
    shared: SharedSpaces,
    embedded: Way,
    named: BTreeMap<String, Way>,
    signers: Mutex<HashMap<String, Signer>>,
}

impl Peers {
    /// The ways, and the work that keeps them open.
    pub(super) fn new(
        secret: Vec<u8>,
        engine: Engine,
        admission: &Admission,
        config: &Config,
    ) -> (Self, Vec<Background>) {
        let (asks_tx, asks_rx) = commands();
        let admission = Arc::new(Admission { modern_cells: None, ..admission.clone() });
        let mut background =
            vec![Background::new(move |host| serve_embedded(engine, admission, asks_rx, host))];
        let mut named = BTreeMap::new();
        for (name, peer) in &config.peers {
            let (way, work) = link(settings(name, peer), |_| Client::new(manner(peer)));
            named.insert(name.clone(), Way::Peer(way));
            background.push(work);
        }
        let signers = Mutex::default();
        let shared = config.shared_spaces();
        (Self { secret, shared, embedded: Way::Embedded(asks_tx), named, signers }, background)
    }

    /// A space as a principal is in it. In the embedded store each principal has spaces of its own, but for those
    /// that the configuration shares and those that are named after an identity. A peer decides for itself.
    pub(super) fn mounted(
        &self,
        space: &str,
        peer: Option<&str>,
        principal: &str,
    ) -> Result<Mounted, ClientError> {
        if peer.is_none() && !is_space_name(space) {
            return Err(ClientError::new("ProtocolError", "Invalid memory space identifier"));
        }
        let is_own = peer.is_none() && !self.shared.contains(space) && !is_identity(space);
        let space = if is_own { script_space(principal, space) } else { space.to_owned() };
        Ok(Mounted { space, identity: self.signer(principal)? })
    }

    /// The identity of a principal.
    pub(super) fn identity_of(&self, principal: &str) -> Result<String, ClientError> {
        Ok(self.signer(principal)?.did().to_owned())
    }

    fn signer(&self, principal: &str) -> Result<Signer, ClientError> {
        let mut signers = self.signers.lock();
        if let Some(signer) = signers.get(principal) {
            return Ok(Arc::clone(signer));
        }
        let identity = Identity::of_principal(&self.secret, principal);
        let signer = Arc::new(identity.ok_or_else(|| ClientError::new("AuthorizationError", "no key"))?);
        if signers.len() >= SIGNERS_MAX {
            signers.clear();
        }
        signers.insert(principal.to_owned(), Arc::clone(&signer));
        Ok(signer)
    }

    /// Gives a server something to do.
    pub(super) async fn tell(&self, peer: Option<&str>, ask: Ask) -> Result<(), ClientError> {
        let way = match peer {
            None => &self.embedded,
            Some(name) => self.named.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.named.keys().map(String::as_str).collect();
                ClientError::connection(format!("no peer is called {name}; there are: {}", known.join(", ")))
            })?,
        };
        match way {
            Way::Embedded(asks_tx) => {
                asks_tx.send(ask).await.map_err(|_| ClientError::connection("the server stops"))
            }
            Way::Peer(link) => link.send(ask).await.map_err(|down| ClientError::connection(down.to_string())),
        }
    }

    /// Gives a server something to do and waits for what comes of it.
    pub(super) async fn ask(
        &self,
        peer: Option<&str>,
        ask: impl FnOnce(Reply) -> Ask,
    ) -> Result<Data, ClientError> {
        let (reply_tx, reply_rx) = oneshot::channel();
        self.tell(peer, ask(reply_tx)).await?;
        let lost = || ClientError::connection("the connection to the memory server was lost");
        reply_rx.await.map_err(|_| lost())?
    }
}

/// Both ends of the connection inside the process, until the server stops.
async fn serve_embedded(
    engine: Engine,
    admission: Arc<Admission>,
    mut asks_rx: mpsc::Receiver<Ask>,
    host: Host,
) {
    let mut client = Client::new(Manner::default());
    // Should its queues ever overflow the connection ends, and another one takes up its sessions.
    while !host.stop.is_cancelled() {
        let (mut near, mut far) = pair(PAIR_MESSAGES_MAX);
        let end = host.stop.child_token();
        let (outlet, mut messages_rx) = outlet(end.clone());
        let mut visitor = Visitor::new(engine.clone(), Arc::clone(&admission), outlet, None);
        tokio::join!(
            pump(&mut near, &mut client, &mut asks_rx, &end),
            pump(&mut far, &mut visitor, &mut messages_rx, &end),
        );
    }
}

fn settings(name: &str, peer: &PeerConfig) -> LinkSettings {
    let dial = Dial {
        url: peer.url.clone(),
        subprotocol: None,
        token: peer.token.clone(),
        message_bytes_max: MESSAGE_BYTES_MAX,
    };
    LinkSettings::new(name, dial)
}

fn manner(peer: &PeerConfig) -> Manner {
    let dialect = match peer.dialect {
        PeerDialect::Fvj1 => Dialect::Tagged,
        PeerDialect::Plain => Dialect::Plain,
    };
    let usual = Manner::default();
    let protocol = peer.protocol.clone().unwrap_or(usual.protocol);
    Manner { dialect, protocol, flags: peer.flags.clone().unwrap_or(usual.flags) }
}

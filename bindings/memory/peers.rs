//! The servers that scripts can use: the embedded store, and the peers in the settings.
//!
//! The embedded store is used through the same protocol, over a connection inside the process, so
//! one client serves both and scripts see no difference.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::auth::{Identity, is_identity};
use super::client::{Client, ClientError, ClientOptions, Reply, Request, Signer, SpaceIdentity};
use super::codec::{Data, Dialect};
use super::config::{Config, PeerConfig, PeerDialect, SharedSpaces};
use super::endpoint::{AuthPolicy, MESSAGE_BYTES_MAX, ServerConnection};
use super::engine::Engine;
use super::message_sender::message_channel;
use super::names::{is_space_name, script_space};
use crate::peering::{Background, Host, Link, LinkSettings, commands, link, pump};
use crate::transport::{Dial, pair};

/// Most messages queued between the two ends of the connection inside the process.
const PAIR_MESSAGES_MAX: usize = 256;

/// Most principals whose keys are cached; other keys are derived again.
const SIGNERS_MAX: usize = 10_000;

enum Route {
    Embedded(mpsc::Sender<Request>),
    Peer(Link<Request>),
}

pub(super) struct Peers {
    secret: Vec<u8>,
    shared_spaces: SharedSpaces,
    embedded: Route,
    named: BTreeMap<String, Route>,
    signers: Mutex<HashMap<String, Signer>>,
}

impl Peers {
    /// Also returns the background work that serves the embedded store and keeps the links
    /// connected.
    pub(super) fn new(
        secret: Vec<u8>,
        engine: Engine,
        auth_policy: &AuthPolicy,
        config: &Config,
    ) -> (Self, Vec<Background>) {
        let (requests_tx, requests_rx) = commands();
        let auth_policy = Arc::new(AuthPolicy { modern_cells: None, ..auth_policy.clone() });
        let mut background =
            vec![Background::new(move |host| serve_embedded(engine, auth_policy, requests_rx, host))];
        let mut named = BTreeMap::new();
        for (name, peer) in &config.peers {
            let (route, work) = link(link_settings(name, peer), |_| Client::new(client_options(peer)));
            named.insert(name.clone(), Route::Peer(route));
            background.push(work);
        }
        let signers = Mutex::default();
        let shared_spaces = config.shared_spaces();
        (Self { secret, shared_spaces, embedded: Route::Embedded(requests_tx), named, signers }, background)
    }

    /// Resolves the name of a space in a script of a principal. In the embedded store each
    /// principal has its own spaces, except those that the configuration shares and those named
    /// after an identity. A peer has its own rules.
    pub(super) fn resolve_space(
        &self,
        space: &str,
        peer: Option<&str>,
        principal: &str,
    ) -> Result<SpaceIdentity, ClientError> {
        if peer.is_none() && !is_space_name(space) {
            return Err(ClientError::new("ProtocolError", "Invalid memory space identifier"));
        }
        let is_own = peer.is_none() && !self.shared_spaces.contains(space) && !is_identity(space);
        let space = if is_own { script_space(principal, space) } else { space.to_owned() };
        Ok(SpaceIdentity { space, identity: self.get_signer(principal)? })
    }

    pub(super) fn principal_did(&self, principal: &str) -> Result<String, ClientError> {
        Ok(self.get_signer(principal)?.did().to_owned())
    }

    fn get_signer(&self, principal: &str) -> Result<Signer, ClientError> {
        let mut signers = self.signers.lock();
        if let Some(signer) = signers.get(principal) {
            return Ok(Arc::clone(signer));
        }
        let identity = Identity::for_principal(&self.secret, principal);
        let signer = Arc::new(identity.ok_or_else(|| {
            ClientError::new("AuthorizationError", "cannot derive a key for the principal")
        })?);
        if signers.len() >= SIGNERS_MAX {
            signers.clear();
        }
        signers.insert(principal.to_owned(), Arc::clone(&signer));
        Ok(signer)
    }

    /// Sends a request without waiting for its result.
    pub(super) async fn send(&self, peer: Option<&str>, request: Request) -> Result<(), ClientError> {
        let route = match peer {
            None => &self.embedded,
            Some(name) => self.named.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.named.keys().map(String::as_str).collect();
                ClientError::connection(format!("unknown peer {name:?}; configured: {}", known.join(", ")))
            })?,
        };
        match route {
            Route::Embedded(requests_tx) => requests_tx
                .send(request)
                .await
                .map_err(|_| ClientError::connection("server is shutting down")),
            Route::Peer(link) => {
                link.send(request).await.map_err(|down| ClientError::connection(down.to_string()))
            }
        }
    }

    /// Sends a request and waits for its result.
    pub(super) async fn request(
        &self,
        peer: Option<&str>,
        build: impl FnOnce(Reply) -> Request,
    ) -> Result<Data, ClientError> {
        let (reply_tx, reply_rx) = oneshot::channel();
        self.send(peer, build(reply_tx)).await?;
        let lost = || ClientError::connection("connection to the memory server lost");
        reply_rx.await.map_err(|_| lost())?
    }
}

/// Runs both ends of the connection inside the process until the server stops.
async fn serve_embedded(
    engine: Engine,
    auth_policy: Arc<AuthPolicy>,
    mut requests_rx: mpsc::Receiver<Request>,
    host: Host,
) {
    let mut client = Client::new(ClientOptions::default());
    // If a queue overflows the connection ends, and the next one resumes its sessions.
    while !host.stop.is_cancelled() {
        let (mut near, mut far) = pair(PAIR_MESSAGES_MAX);
        let end = host.stop.child_token();
        let (sender, mut messages_rx) = message_channel(end.clone());
        let mut connection = ServerConnection::new(engine.clone(), Arc::clone(&auth_policy), sender, None);
        tokio::join!(
            pump(&mut near, &mut client, &mut requests_rx, &end),
            pump(&mut far, &mut connection, &mut messages_rx, &end),
        );
    }
}

fn link_settings(name: &str, peer: &PeerConfig) -> LinkSettings {
    let dial = Dial {
        url: peer.url.clone(),
        subprotocol: None,
        token: peer.token.clone(),
        message_bytes_max: MESSAGE_BYTES_MAX,
    };
    LinkSettings::new(name, dial)
}

fn client_options(peer: &PeerConfig) -> ClientOptions {
    let dialect = match peer.dialect {
        PeerDialect::Fvj1 => Dialect::Tagged,
        PeerDialect::Plain => Dialect::Plain,
    };
    let defaults = ClientOptions::default();
    let protocol = peer.protocol.clone().unwrap_or(defaults.protocol);
    ClientOptions { dialect, protocol, flags: peer.flags.clone().unwrap_or(defaults.flags) }
}

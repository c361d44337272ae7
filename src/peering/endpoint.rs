//! Mounts: the addresses and paths at which a package is reached from outside.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::HeaderMap;
use tokio_util::sync::CancellationToken;

use crate::binding::Principal;
use crate::observe::audit::Audit;
use crate::transport::BoxTransport;

/// Serves the connections of a mount.
pub trait Endpoint: Send + Sync + 'static {
    /// The WebSocket subprotocol, echoed to clients that offer it.
    fn subprotocol(&self) -> Option<&'static str>;

    /// Longest message that is read.
    fn message_bytes_max(&self) -> usize;

    /// Longest message that is sent, where that is more.
    fn sent_bytes_max(&self) -> usize {
        self.message_bytes_max()
    }

    /// Serves one connection to its end.
    fn serve(&self, connection: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A connection that a client made to a mount.
pub struct IncomingConnection {
    /// Carries its frames.
    pub transport: BoxTransport,
    /// The principal of the client; where the endpoint authenticates by itself, that of clients without a token.
    pub principal: Arc<Principal>,
    /// Records what the connection does.
    pub audit: Audit,
    /// The query of its URL.
    pub query: Option<String>,
    /// The headers of its upgrade request.
    pub headers: HeaderMap,
    /// Cancelled when the server stops.
    pub stop: CancellationToken,
}

/// What admits clients to a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountGate {
    /// The server, by its tokens.
    Server,
    /// The package, by the means of its protocol. Only the origin of web pages is checked before, and on a server
    /// without tokens the `Host`, unless the mount listens on a public address of its own.
    Own,
}

/// The protocol of a mount.
#[derive(Clone)]
pub enum MountKind {
    /// A protocol over WebSocket.
    WebSocket(Arc<dyn Endpoint>),
    /// Plain HTTP; the paths are those of the router, and the mount's own is not looked at.
    Http(axum::Router),
}

/// An address and a path at which a package is reached.
#[derive(Clone)]
pub struct Mount {
    /// An address of its own, such as `127.0.0.1:7200`; without one it is on the server's port.
    pub listen: Option<String>,
    /// The path. `/` on the server's own port is shared with scomp: clients that offer the subprotocol are served here.
    pub path: String,
    /// What admits clients.
    pub gate: MountGate,
    /// Its protocol.
    pub kind: MountKind,
}

impl Mount {
    /// A WebSocket on the server's own port, for clients with a token of the server.
    pub fn web_socket(path: impl Into<String>, endpoint: Arc<dyn Endpoint>) -> Self {
        let kind = MountKind::WebSocket(endpoint);
        Self { listen: None, path: path.into(), gate: MountGate::Server, kind }
    }

    /// Whether only this machine can reach it when the server has no tokens: such a server listens on loopback, and
    /// a web page could still make its own name point there.
    pub fn is_local(&self) -> bool {
        let Some(listen) = &self.listen else { return true };
        let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        listen.parse().is_ok_and(is_loopback)
            || listen.rsplit_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("localhost"))
    }

    /// The same on a port of its own.
    #[must_use]
    pub fn on(self, listen: impl Into<String>) -> Self {
        Self { listen: Some(listen.into()), ..self }
    }

    /// The same with another gate.
    #[must_use]
    pub fn gate(self, gate: MountGate) -> Self {
        Self { gate, ..self }
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { listen, path, gate, kind: _ } = self;
        f.debug_struct("Mount")
            .field("listen", listen)
            .field("path", path)
            .field("gate", gate)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_is_local_on_the_servers_port_and_on_loopback() {
        let mount = Mount {
            listen: None,
            path: "/x".to_owned(),
            gate: MountGate::Own,
            kind: MountKind::Http(axum::Router::new()),
        };
        assert!(mount.is_local());
        for listen in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1", "LOCALHOST:1"] {
            assert!(mount.clone().on(listen).is_local(), "{listen}");
        }
        for listen in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1", "localhost.example:1"] {
            assert!(!mount.clone().on(listen).is_local(), "{listen}");
        }
    }
}

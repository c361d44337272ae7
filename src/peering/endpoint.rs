//! Where a package is reached from outside.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::HeaderMap;
use tokio_util::sync::CancellationToken;

use crate::binding::Principal;
use crate::transport::BoxTransport;

/// Serves the connections that come to a mount.
pub trait Endpoint: Send + Sync + 'static {
    /// The WebSocket subprotocol, echoed to whoever offers it.
    fn subprotocol(&self) -> Option<&'static str>;

    /// Longest message that is read.
    fn message_bytes_max(&self) -> usize;

    /// Longest message that is sent, where that is more.
    fn sent_bytes_max(&self) -> usize {
        self.message_bytes_max()
    }

    /// Serves one connection to its end.
    fn serve(&self, visit: Visit) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// One connection that came in.
pub struct Visit {
    /// Its frames.
    pub transport: BoxTransport,
    /// Who came; where the endpoint authenticates by itself, whoever is served without a token.
    pub principal: Arc<Principal>,
    /// What stood behind `?` in its address.
    pub query: Option<String>,
    /// The headers of its upgrade.
    pub headers: HeaderMap,
    /// Fires when the server stops.
    pub stop: CancellationToken,
}

/// Who decides over those who come to a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountGate {
    /// The server, by its tokens.
    Server,
    /// The package, by the means of its protocol. Only the origin of web pages is checked before.
    Own,
}

/// What a mount speaks.
#[derive(Clone)]
pub enum Face {
    /// A protocol over WebSocket.
    WebSocket(Arc<dyn Endpoint>),
    /// Plain HTTP; the paths are those of the router, and the mount's own is not looked at.
    Http(axum::Router),
}

/// A place on a port at which a package is reached.
#[derive(Clone)]
pub struct Mount {
    /// An address of its own, such as `127.0.0.1:7200`; without one it is on the server's port.
    pub listen: Option<String>,
    /// The path. `/` on the server's own port is shared with scomp: those who offer the subprotocol come here.
    pub path: String,
    /// Who may come in.
    pub gate: MountGate,
    /// What is spoken there.
    pub face: Face,
}

impl Mount {
    /// A WebSocket on the server's own port, for those with the server's tokens.
    pub fn web_socket(path: impl Into<String>, endpoint: Arc<dyn Endpoint>) -> Self {
        let face = Face::WebSocket(endpoint);
        Self { listen: None, path: path.into(), gate: MountGate::Server, face }
    }

    /// The same on a port of its own.
    #[must_use]
    pub fn on(self, listen: impl Into<String>) -> Self {
        Self { listen: Some(listen.into()), ..self }
    }

    /// The same with another one to decide who may come in.
    #[must_use]
    pub fn gate(self, gate: MountGate) -> Self {
        Self { gate, ..self }
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { listen, path, gate, face: _ } = self;
        f.debug_struct("Mount")
            .field("listen", listen)
            .field("path", path)
            .field("gate", gate)
            .finish_non_exhaustive()
    }
}

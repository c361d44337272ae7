//! What the server hands to its packages when it starts.

use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::binding::Principal;
use crate::transport::PairEnd;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work of a package that runs as long as the server: its links, its timers. It ends when [`Host::stop`] is cancelled.
pub struct Background(Box<dyn FnOnce(Host) -> Work + Send>);

impl Background {
    /// Work that starts with the server.
    pub fn new<F, W>(work: F) -> Self
    where
        F: FnOnce(Host) -> W + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        Self(Box::new(move |host| Box::pin(work(host))))
    }

    /// Starts it.
    pub fn run(self, host: Host) -> impl Future<Output = ()> + Send {
        (self.0)(host)
    }
}

impl std::fmt::Debug for Background {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

/// The server, as its packages see it. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    connect: Arc<dyn Fn(Option<Arc<Principal>>) -> PairEnd + Send + Sync>,
    /// Cancelled when the server stops.
    pub stop: CancellationToken,
}

impl Host {
    /// A host whose in-process connections are made by `connect`.
    pub(crate) fn new(
        connect: impl Fn(Option<Arc<Principal>>) -> PairEnd + Send + Sync + 'static,
        stop: CancellationToken,
    ) -> Self {
        Self { connect: Arc::new(connect), stop }
    }

    /// An in-process connection to the server, for a client that calls bindings or evaluates as the server itself.
    pub fn connect(&self) -> PairEnd {
        (self.connect)(None)
    }

    /// The same as a principal, with its policy and quotas.
    pub fn connect_as(&self, principal: &Arc<Principal>) -> PairEnd {
        (self.connect)(Some(Arc::clone(principal)))
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

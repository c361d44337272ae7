//! What a package gets of the server when that starts.

use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::binding::Principal;
use crate::transport::PairEnd;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work of a package that runs as long as the server: its links, its timers. It ends when [`Host::stop`] fires.
pub struct Background(Box<dyn FnOnce(Host) -> Work + Send>);

impl Background {
    /// Work to be begun when the server starts.
    pub fn new<F, W>(work: F) -> Self
    where
        F: FnOnce(Host) -> W + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        Self(Box::new(move |host| Box::pin(work(host))))
    }

    /// Begins it.
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
    /// Fires when the server stops.
    pub stop: CancellationToken,
}

impl Host {
    /// A host whose in-process connections are made by `connect`.
    pub fn new(
        connect: impl Fn(Option<Arc<Principal>>) -> PairEnd + Send + Sync + 'static,
        stop: CancellationToken,
    ) -> Self {
        Self { connect: Arc::new(connect), stop }
    }

    /// An in-process connection to the server, for a client that calls bindings or evaluates in its own name.
    pub fn connect(&self) -> PairEnd {
        (self.connect)(None)
    }

    /// The same in the name of a principal, with what that may do.
    pub fn connect_as(&self, principal: &Arc<Principal>) -> PairEnd {
        (self.connect)(Some(Arc::clone(principal)))
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

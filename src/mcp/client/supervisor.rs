//! Keeps the connection to a server up, and the bindings of the package in step with what the server offers.
//!
//! When a server ends, calls in flight fail with `PeerGone`, later ones too, and it is started again with back-off. What
//! it offers then, or announces later, is published as a new version of the catalog.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Launch, Running, START_TIME_MAX};
use super::package::McpPackage;
use crate::binding::BindingPublisher;
use crate::concurrency::{Backoff, random_fraction};

/// The first wait before a server that ended is started again; it doubles each time.
const RESTART_WAIT_FIRST: Duration = Duration::from_millis(200);

/// The longest such wait. A server that ran for as long begins with the first wait again.
const RESTART_WAIT_MAX: Duration = Duration::from_secs(10);

/// The shortest time between two lists. A server that announces changes all the time is asked this often.
const LIST_EVERY_MIN: Duration = Duration::from_millis(200);

/// Owns the connection of one package.
pub(super) struct Supervisor {
    pub(super) launch: Launch,
    /// It ends with its handles, which this is not.
    pub(super) package: Weak<McpPackage>,
    pub(super) publisher: BindingPublisher,
    pub(super) current_tx: watch::Sender<Option<Arc<Connection>>>,
}

/// Why a connection is not used any more.
enum Ending {
    Closed,
    Stopped,
}

impl Supervisor {
    pub(super) async fn run(self, mut running: Running, end: CancellationToken) {
        let mut backoff = Backoff::new(RESTART_WAIT_FIRST, RESTART_WAIT_MAX);
        let name = &self.launch.package;
        loop {
            let started = Instant::now();
            self.current_tx.send_replace(Some(Arc::clone(&running.connection)));
            let ending = self.watch(&running.connection, &end).await;
            self.current_tx.send_replace(None);
            let failure = running.connection.routes.failure().unwrap_or_default();
            running.stop(name).await;
            match ending {
                Ending::Stopped => return,
                Ending::Closed => {
                    let reason = self.launch.secrets.redact(&failure);
                    tracing::warn!(package = %name, reason, "the connection to the MCP server ended");
                }
            }
            if started.elapsed() >= RESTART_WAIT_MAX {
                backoff.reset();
            }
            running = tokio::select! {
                running = self.restart(&mut backoff) => running,
                () = end.cancelled() => return,
            };
        }
    }

    /// Follows one connection to its end.
    async fn watch(&self, connection: &Connection, end: &CancellationToken) -> Ending {
        loop {
            tokio::select! {
                () = end.cancelled() => return Ending::Stopped,
                () = connection.routes.closed.cancelled() => return Ending::Closed,
                () = connection.hung.cancelled() => {
                    connection.routes.close("the server stopped answering calls");
                }
                () = connection.routes.changed.notified() => {
                    tokio::select! {
                        () = self.publish(connection) => {}
                        () = connection.routes.closed.cancelled() => return Ending::Closed,
                        () = end.cancelled() => return Ending::Stopped,
                    }
                }
            }
        }
    }

    /// Asks what the server offers now, and publishes it.
    async fn publish(&self, connection: &Connection) {
        // The handle is held until the list is there, which keeps an unused package for that time at most.
        let listed = match self.package.upgrade() {
            Some(package) => timeout(START_TIME_MAX, package.offered(connection)).await,
            None => return,
        };
        let name = &self.launch.package;
        match listed {
            Ok(Ok((bindings, unmapped))) => {
                for item in unmapped {
                    tracing::warn!(package = %name, tool = %item.name, reason = %item.reason, "a tool cannot be mapped");
                }
                // What is refused is logged there.
                let _ = self.publisher.replace(bindings).await;
            }
            Ok(Err(error)) => {
                tracing::warn!(package = %name, error, "the MCP server does not list its tools")
            }
            Err(_) => tracing::warn!(package = %name, "the MCP server takes too long to list its tools"),
        }
        sleep(LIST_EVERY_MIN).await;
    }

    async fn restart(&self, backoff: &mut Backoff) -> Running {
        let name = &self.launch.package;
        loop {
            sleep(backoff.next_wait(random_fraction())).await;
            match self.launch.connect().await {
                Ok(running) => {
                    tracing::info!(package = %name, "connected to the MCP server again");
                    // What it offers may have changed.
                    running.connection.routes.changed.notify_one();
                    return running;
                }
                Err(error) => tracing::error!(package = %name, error, "the MCP server cannot be restarted"),
            }
        }
    }
}

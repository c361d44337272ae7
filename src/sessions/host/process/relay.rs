//! Passes messages between a session's link and its worker.
//!
//! It never waits for the worker to read before it takes what the worker says: each may then wait for the other. What
//! is to be sent waits in a queue of its own, and while there is something in it nothing is taken from the link.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::worker::{SessionChannel, WorkerEvent};
use crate::catalog::Catalog;
use crate::protocol::client_messages::Closing;
use crate::session::boundary::{FromSession, ToSession};
use crate::sessions::port::SessionPort;
use crate::worker::catalogs;
use crate::worker::frame::ToWorker;

/// Answers that may wait for a worker to read. A session of ours has fewer calls in flight; one that makes more is not
/// ours any more.
const REPLIES_QUEUED_MAX: usize = 8192;

/// See the module.
pub(super) struct Relay {
    port: SessionPort,
    channel: SessionChannel,
    unsent: VecDeque<ToSession>,
    /// The server's bindings that the session may know, the latest last.
    server: VecDeque<Arc<Catalog>>,
    /// Those of its client.
    client: Arc<Catalog>,
}

/// The server's catalogs that a session can ask about: the one it uses, and the next.
const CATALOGS_KEPT_MAX: usize = 4;

impl Relay {
    pub(super) fn new(port: SessionPort, channel: SessionChannel, catalog: Arc<Catalog>) -> Self {
        Self {
            port,
            channel,
            unsent: VecDeque::new(),
            server: VecDeque::from([catalog]),
            client: Arc::default(),
        }
    }

    /// Passes messages on until the session has ended or its worker is lost.
    pub(super) async fn run(mut self, mut inbox_rx: mpsc::Receiver<ToSession>) {
        let (mut is_reachable, to_worker) = (true, self.channel.to_worker.clone());
        loop {
            let is_idle = self.unsent.is_empty();
            tokio::select! {
                event = self.channel.events_rx.recv() => match event {
                    Some(WorkerEvent::Message(message)) => {
                        if matches!(message, FromSession::Ended { .. } | FromSession::Suspended { .. }) {
                            // First, so that the end finds the session gone.
                            inbox_rx.close();
                            self.port.receive(message);
                            return;
                        }
                        if !self.receive(message) {
                            return;
                        }
                    }
                    // Said once; again it is an error of the worker.
                    Some(WorkerEvent::Started | WorkerEvent::Refused(_)) => return,
                    // The port, dropped, ends the session for its connections and handlers.
                    None => return,
                },
                permit = to_worker.reserve(), if !is_idle => {
                    let Ok(permit) = permit else { return };
                    if let Some(message) = self.unsent.pop_front() {
                        permit.send(ToWorker::Session { session: self.channel.number, message });
                    }
                }
                message = inbox_rx.recv(), if is_idle && is_reachable => {
                    is_reachable = message.is_some();
                    // Every sender is gone: nothing can reach the session any more.
                    let message = message.unwrap_or(ToSession::End(Closing::GoingAway));
                    self.note_catalogs(&message);
                    self.unsent.push_back(message);
                }
            }
        }
    }

    /// Takes a message of the session; `false` if it has to end for what it does.
    fn receive(&mut self, mut message: FromSession) -> bool {
        if let Some((server, client)) = catalogs::in_description(&mut message) {
            let version = server.version();
            let found = self.server.iter().find(|catalog| catalog.version() == version);
            *server = found.or(self.server.back()).cloned().unwrap_or_default();
            *client = Arc::clone(&self.client);
        }
        if let Some(reply) = self.port.receive(message) {
            self.unsent.push_back(reply);
        }
        self.unsent.len() <= REPLIES_QUEUED_MAX
    }

    fn note_catalogs(&mut self, message: &ToSession) {
        let catalog = match message {
            ToSession::Attach { bindings, listed, .. } => {
                self.client = Arc::clone(bindings);
                listed
            }
            ToSession::Catalog(catalog) => catalog,
            _ => return,
        };
        if self.server.back().is_none_or(|last| last.version() != catalog.version()) {
            if self.server.len() == CATALOGS_KEPT_MAX {
                self.server.pop_front();
            }
            self.server.push_back(Arc::clone(catalog));
        }
    }
}

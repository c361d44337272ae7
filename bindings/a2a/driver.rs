//! The gateway thread: it owns the machine and the session store, and receives inputs as its jobs.
//!
//! One owner needs no locks and gives one order of events; its own thread keeps disk writes off the
//! shards. Inputs that are ready together share one sync of the disk, and their effects are sent
//! after it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::ConnectionId;
use super::delivery::DeliverySender;
use super::machine::{AuditRecord, ClientInfo, Effect, Gateway, Step};
use super::sessions::DiskSessionStore;
use crate::concurrency::{JobError, JobThread, Worker};
use crate::observe::audit::{Audit, Event};
use crate::transport::close_code;

/// Inputs queued for the gateway. While the disk stalls this many frames are held; further ones are
/// refused as busy.
const INPUTS_QUEUED_MAX: usize = 8192;

/// Text of sockets queued for the gateway, in bytes. A text behind more than that is refused as
/// busy, too.
const TEXT_BYTES_QUEUED_MAX: usize = 64 << 20;

/// Inputs that share one sync of the disk.
const INPUTS_PER_ROUND_MAX: usize = 256;

#[derive(Debug)]
pub(crate) enum Input {
    Open { id: ConnectionId, client: ClientInfo, deliveries: DeliverySender },
    Text { id: ConnectionId, text: String },
    Frame { id: ConnectionId, fields: Map<String, Value> },
    Binary { id: ConnectionId },
    Close { id: ConnectionId },
    Sync { done_tx: oneshot::Sender<()> },
}

/// Sends inputs to the gateway thread, which ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct GatewayHandle {
    thread: JobThread<Input>,
    connections: Arc<AtomicU64>,
}

/// The gateway thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway has stopped")]
pub(crate) struct GatewayStopped;

impl GatewayHandle {
    /// Starts the gateway thread.
    pub(crate) fn start(gateway: Gateway, sessions: DiskSessionStore, audit: Audit) -> std::io::Result<Self> {
        let driver = Driver { gateway, sessions, audit, deliveries: HashMap::new(), effects: Vec::new() };
        Self::start_thread(driver)
    }

    fn start_thread(worker: impl Worker<Job = Input>) -> std::io::Result<Self> {
        let thread =
            JobThread::start_with_byte_limit("a2a", INPUTS_QUEUED_MAX, TEXT_BYTES_QUEUED_MAX, worker)?;
        Ok(Self { thread, connections: Arc::default() })
    }

    /// Opens a connection; the gateway sends its frames to `deliveries`.
    pub(crate) async fn open(
        &self,
        mut client: ClientInfo,
        deliveries: DeliverySender,
    ) -> Result<ConnectionId, GatewayStopped> {
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed));
        client.client_id = format!("client-{}", uuid::Uuid::new_v4());
        self.send(Input::Open { id, client, deliveries }).await?;
        Ok(id)
    }

    /// Sends an input, and waits for room.
    pub(crate) async fn send(&self, input: Input) -> Result<(), GatewayStopped> {
        self.thread.send(input).await.map_err(|_| GatewayStopped)
    }

    /// Sends the text of a socket without waiting; returns false if there is no room.
    pub(crate) fn try_send_text(&self, id: ConnectionId, text: &str) -> bool {
        self.thread.try_send_bytes(Input::Text { id, text: text.to_owned() }, text.len()).is_ok()
    }

    /// Sends an input without waiting; returns it if there is no room.
    pub(crate) fn try_send(&self, input: Input) -> Result<(), Input> {
        self.thread.try_send(input).map_err(JobError::into_job)
    }

    /// Closes a connection from code that cannot wait.
    pub(crate) fn close(&self, id: ConnectionId) {
        if let Err(input) = self.try_send(Input::Close { id })
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let gateway = self.clone();
            // A lost close would leave the agents of the connection registered.
            runtime.spawn(async move { gateway.send(input).await });
        }
    }

    /// Waits until everything is written and synced.
    pub(crate) async fn sync(&self) {
        let (done_tx, done_rx) = oneshot::channel();
        if self.send(Input::Sync { done_tx }).await.is_ok() {
            // A gateway thread that has ended has synced.
            let _ = done_rx.await;
        }
    }
}

struct Driver {
    gateway: Gateway,
    sessions: DiskSessionStore,
    audit: Audit,
    deliveries: HashMap<ConnectionId, DeliverySender>,
    /// Effects of the current round, in order.
    effects: Vec<Effect>,
}

impl Worker for Driver {
    type Job = Input;

    const JOBS_PER_ROUND_MAX: usize = INPUTS_PER_ROUND_MAX;

    fn on_job(&mut self, input: Input) {
        self.apply_input(input);
    }

    fn wake_at(&self) -> Option<Instant> {
        let wait_ms = self.gateway.wake_at_ms()?.saturating_sub(now_ms());
        Instant::now().checked_add(Duration::from_millis(wait_ms))
    }

    fn on_round_end(&mut self, _inputs: usize) {
        if self.gateway.wake_at_ms().is_some_and(|at| at <= now_ms()) {
            self.run_step(Gateway::on_wake);
        }
        self.flush_effects();
    }

    fn on_stop(&mut self) {
        if let Err(error) = self.sessions.sync() {
            tracing::error!(%error, "final sync of the sessions failed");
        }
    }
}

impl Driver {
    fn apply_input(&mut self, input: Input) {
        match input {
            Input::Open { id, client, deliveries } => {
                self.deliveries.insert(id, deliveries);
                self.run_step(|gateway, step| gateway.on_open(id, client, step));
            }
            Input::Text { id, text } => {
                self.run_step(|gateway, step| gateway.on_text(id, &text, step));
            }
            Input::Frame { id, fields } => {
                self.run_step(|gateway, step| gateway.on_fields(id, fields, step));
            }
            Input::Binary { id } => self.run_step(|gateway, step| gateway.on_binary(id, step)),
            Input::Close { id } => {
                self.deliveries.remove(&id);
                self.run_step(|gateway, step| gateway.on_end(id, step));
            }
            Input::Sync { done_tx } => {
                if let Err(error) = self.sessions.sync() {
                    tracing::error!(%error, "sync of the sessions failed");
                }
                // The caller may have stopped waiting.
                let _ = done_tx.send(());
            }
        }
    }

    fn run_step(&mut self, input: impl FnOnce(&mut Gateway, &mut Step<'_>)) {
        let mut step = Step { now_ms: now_ms(), sessions: &mut self.sessions, effects: &mut self.effects };
        input(&mut self.gateway, &mut step);
    }

    /// Syncs the sessions as configured, then performs the effects.
    fn flush_effects(&mut self) {
        let effects = std::mem::take(&mut self.effects);
        let synced = self.sessions.sync_before_ack();
        if let Err(error) = &synced {
            // What is not on disk must not be acknowledged: the connections concerned are closed
            // instead.
            tracing::error!(%error, "writing the sessions failed");
            let concerned: BTreeSet<_> = effects.iter().filter_map(receiver_of).collect();
            for id in concerned {
                self.close(id, close_code::INTERNAL, "writing the sessions failed".to_owned());
            }
        }
        for effect in effects {
            match effect {
                Effect::Audit(record) => self.record_audit(record),
                Effect::Send { to, frame } if synced.is_ok() => self.send(to, frame),
                Effect::Close { to, code, reason } => self.close(to, code, reason),
                Effect::Send { .. } => {}
            }
        }
    }

    fn record_audit(&self, record: AuditRecord) {
        let is_authenticated = record.is_authenticated;
        let event = || Event::Message {
            client: record.client_id,
            kind: record.kind,
            id: record.id,
            from: record.from,
            agent: record.agent,
            outcome: record.outcome,
        };
        match is_authenticated {
            true => self.audit.record(event),
            false => self.audit.record_unauthenticated(event),
        }
    }

    fn send(&mut self, id: ConnectionId, frame: Value) {
        if self.deliveries.get(&id).is_some_and(|deliveries| !deliveries.send(frame)) {
            self.deliveries.remove(&id);
        }
    }

    fn close(&mut self, id: ConnectionId, code: u16, reason: String) {
        if let Some(deliveries) = self.deliveries.remove(&id) {
            deliveries.close(code, reason);
        }
    }
}

fn receiver_of(effect: &Effect) -> Option<ConnectionId> {
    match effect {
        Effect::Send { to, .. } => Some(*to),
        Effect::Close { .. } | Effect::Audit(_) => None,
    }
}

/// Returns milliseconds since 1970, as in frames.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

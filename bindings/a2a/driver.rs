//! The gateway thread: it owns the machine and the session store, and receives inputs over a
//! channel.
//!
//! One owner needs no locks and gives one order of events; its own thread keeps disk writes off the
//! shards. Inputs that are ready together share one sync of the disk, and their effects are sent
//! after it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::ConnectionId;
use super::delivery::DeliverySender;
use super::machine::{AuditRecord, ClientInfo, Effect, Gateway, Step};
use super::sessions::DiskSessionStore;
use crate::observe::audit::{Audit, Event};
use crate::transport::close_code;

/// Inputs queued for the gateway. While the disk stalls this many frames are held; further ones are
/// refused as busy.
const INPUTS_QUEUED_MAX: usize = 8192;

/// Text of sockets queued for the gateway, in bytes. More is refused as busy, too.
pub(crate) const TEXT_BYTES_QUEUED_MAX: usize = 64 << 20;

/// Inputs that share one sync of the disk.
const INPUTS_PER_ROUND_MAX: usize = 256;

#[derive(Debug)]
pub(crate) enum Input {
    Open { id: ConnectionId, client: ClientInfo, deliveries: DeliverySender },
    Text { id: ConnectionId, text: String, room: OwnedSemaphorePermit },
    Frame { id: ConnectionId, fields: Map<String, Value> },
    Binary { id: ConnectionId },
    Close { id: ConnectionId },
    Sync { done_tx: oneshot::Sender<()> },
}

/// Sends inputs to the gateway thread, which ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct GatewayHandle {
    inputs_tx: mpsc::Sender<Input>,
    text_room: Arc<Semaphore>,
    connections: Arc<AtomicU64>,
}

/// The gateway thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway has stopped")]
pub(crate) struct GatewayStopped;

impl GatewayHandle {
    /// Starts the gateway thread.
    pub(crate) fn start(gateway: Gateway, sessions: DiskSessionStore, audit: Audit) -> std::io::Result<Self> {
        let (inputs_tx, inputs_rx) = mpsc::channel(INPUTS_QUEUED_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let driver = Driver { gateway, sessions, audit, deliveries: HashMap::new() };
        std::thread::Builder::new()
            .name("a2a".to_owned())
            .spawn(move || runtime.block_on(driver.run(inputs_rx)))?;
        let text_room = Arc::new(Semaphore::new(TEXT_BYTES_QUEUED_MAX));
        Ok(Self { inputs_tx, text_room, connections: Arc::default() })
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
        self.inputs_tx.send(input).await.map_err(|_| GatewayStopped)
    }

    /// Sends the text of a socket without waiting; returns false if there is no room.
    pub(crate) fn try_send_text(&self, id: ConnectionId, text: &str) -> bool {
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.text_room).try_acquire_many_owned(bytes) else { return false };
        self.try_send(Input::Text { id, text: text.to_owned(), room }).is_ok()
    }

    /// Sends an input without waiting; returns it if there is no room.
    pub(crate) fn try_send(&self, input: Input) -> Result<(), Input> {
        self.inputs_tx.try_send(input).map_err(mpsc::error::TrySendError::into_inner)
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
}

impl Driver {
    async fn run(mut self, mut inputs_rx: mpsc::Receiver<Input>) {
        loop {
            let wait = self.gateway.wake_at_ms().map(|at| at.saturating_sub(now_ms()));
            let first = tokio::select! {
                biased;
                input = inputs_rx.recv() => match input {
                    Some(input) => Some(input),
                    None => break,
                },
                () = sleep_ms(wait) => None,
            };
            let mut effects = Vec::new();
            if let Some(input) = first {
                self.apply_input(input, &mut effects);
                for _ in 1..INPUTS_PER_ROUND_MAX {
                    let Ok(input) = inputs_rx.try_recv() else { break };
                    self.apply_input(input, &mut effects);
                }
            }
            if self.gateway.wake_at_ms().is_some_and(|at| at <= now_ms()) {
                self.run_step(&mut effects, Gateway::on_wake);
            }
            self.flush_effects(effects);
        }
        if let Err(error) = self.sessions.sync() {
            tracing::error!(%error, "final sync of the sessions failed");
        }
    }

    fn apply_input(&mut self, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Open { id, client, deliveries } => {
                self.deliveries.insert(id, deliveries);
                self.run_step(effects, |gateway, step| gateway.on_open(id, client, step));
            }
            Input::Text { id, text, room } => {
                self.run_step(effects, |gateway, step| gateway.on_text(id, &text, step));
                drop(room);
            }
            Input::Frame { id, fields } => {
                self.run_step(effects, |gateway, step| gateway.on_fields(id, fields, step));
            }
            Input::Binary { id } => self.run_step(effects, |gateway, step| gateway.on_binary(id, step)),
            Input::Close { id } => {
                self.deliveries.remove(&id);
                self.run_step(effects, |gateway, step| gateway.on_end(id, step));
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

    fn run_step(&mut self, effects: &mut Vec<Effect>, input: impl FnOnce(&mut Gateway, &mut Step<'_>)) {
        let mut step = Step { now_ms: now_ms(), sessions: &mut self.sessions, effects };
        input(&mut self.gateway, &mut step);
    }

    /// Syncs the sessions as configured, then performs the effects.
    fn flush_effects(&mut self, effects: Vec<Effect>) {
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

async fn sleep_ms(wait_ms: Option<u64>) {
    match wait_ms {
        Some(wait_ms) => tokio::time::sleep(Duration::from_millis(wait_ms)).await,
        None => std::future::pending().await,
    }
}

/// Returns milliseconds since 1970, as in frames.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

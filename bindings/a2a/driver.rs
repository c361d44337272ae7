//! The gateway's thread: it owns the machine and the disk, and everybody else sends it work.
//!
//! One owner means no locks and one order of events; a thread of its own keeps the disk away from those that run
//! scripts. Inputs that are ready together share one sync of the disk, and nobody hears of any of them before that.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::ConnectionId;
use super::machine::{Arrival, Effect, Gateway, Turn};
use super::outlet::Outlet;
use super::sessions::DiskSessions;
use crate::observe::audit::{Audit, Event};
use crate::transport::close_code;

/// Inputs that wait for the gateway. Behind a disk that hangs this many frames are kept; the next are refused as busy.
const INPUTS_QUEUED_MAX: usize = 8192;

/// Text of sockets that waits for the gateway, in bytes. More is refused as busy, too.
pub(crate) const TEXT_BYTES_QUEUED_MAX: usize = 64 << 20;

/// Inputs that share one sync of the disk.
const INPUTS_PER_ROUND_MAX: usize = 256;

/// What happens.
#[derive(Debug)]
pub(crate) enum Input {
    Open { id: ConnectionId, arrival: Arrival, outlet: Outlet },
    Text { id: ConnectionId, text: String, room: OwnedSemaphorePermit },
    Frame { id: ConnectionId, fields: Map<String, Value> },
    Binary { id: ConnectionId },
    End { id: ConnectionId },
    Sync { done_tx: oneshot::Sender<()> },
}

/// The way to the gateway; its thread ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct GatewayHandle {
    inputs_tx: mpsc::Sender<Input>,
    text_room: Arc<Semaphore>,
    connections: Arc<AtomicU64>,
}

/// The gateway is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway has stopped")]
pub(crate) struct Stopped;

impl GatewayHandle {
    /// Starts a gateway.
    pub(crate) fn start(gateway: Gateway, sessions: DiskSessions, audit: Audit) -> std::io::Result<Self> {
        let (inputs_tx, inputs_rx) = mpsc::channel(INPUTS_QUEUED_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let driver = Driver { gateway, sessions, audit, outlets: HashMap::new() };
        std::thread::Builder::new()
            .name("a2a".to_owned())
            .spawn(move || runtime.block_on(driver.run(inputs_rx)))?;
        let text_room = Arc::new(Semaphore::new(TEXT_BYTES_QUEUED_MAX));
        Ok(Self { inputs_tx, text_room, connections: Arc::default() })
    }

    /// Connects somebody; what the gateway has for them comes out of the outlet.
    pub(crate) async fn open(&self, mut arrival: Arrival, outlet: Outlet) -> Result<ConnectionId, Stopped> {
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed));
        arrival.client_id = format!("client-{}", uuid::Uuid::new_v4());
        self.send(Input::Open { id, arrival, outlet }).await?;
        Ok(id)
    }

    /// Gives the gateway something to do, and waits for room.
    pub(crate) async fn send(&self, input: Input) -> Result<(), Stopped> {
        self.inputs_tx.send(input).await.map_err(|_| Stopped)
    }

    /// Gives it a text of a socket, which cannot wait; false if there is no room.
    pub(crate) fn try_text(&self, id: ConnectionId, text: &str) -> bool {
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.text_room).try_acquire_many_owned(bytes) else { return false };
        self.try_send(Input::Text { id, text: text.to_owned(), room }).is_ok()
    }

    /// Gives it something if there is room now.
    pub(crate) fn try_send(&self, input: Input) -> Result<(), Input> {
        self.inputs_tx.try_send(input).map_err(mpsc::error::TrySendError::into_inner)
    }

    /// Ends a connection from where nothing can wait.
    pub(crate) fn end(&self, id: ConnectionId) {
        if let Err(input) = self.try_send(Input::End { id })
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let gateway = self.clone();
            // An end that got lost would leave a ghost.
            runtime.spawn(async move { gateway.send(input).await });
        }
    }

    /// Waits until the disk has everything.
    pub(crate) async fn sync(&self) {
        let (done_tx, done_rx) = oneshot::channel();
        if self.send(Input::Sync { done_tx }).await.is_ok() {
            // A gateway that stopped has synced.
            let _ = done_rx.await;
        }
    }
}

struct Driver {
    gateway: Gateway,
    sessions: DiskSessions,
    audit: Audit,
    outlets: HashMap<ConnectionId, Outlet>,
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
                () = pause(wait) => None,
            };
            let mut effects = Vec::new();
            if let Some(input) = first {
                self.take(input, &mut effects);
                for _ in 1..INPUTS_PER_ROUND_MAX {
                    let Ok(input) = inputs_rx.try_recv() else { break };
                    self.take(input, &mut effects);
                }
            }
            if self.gateway.wake_at_ms().is_some_and(|at| at <= now_ms()) {
                self.turn(&mut effects, Gateway::on_wake);
            }
            self.release(effects);
        }
        if let Err(error) = self.sessions.sync() {
            tracing::error!(%error, "the last sessions may not be on the disk");
        }
    }

    fn take(&mut self, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Open { id, arrival, outlet } => {
                self.outlets.insert(id, outlet);
                self.turn(effects, |gateway, turn| gateway.on_open(id, arrival, turn));
            }
            Input::Text { id, text, room } => {
                self.turn(effects, |gateway, turn| gateway.on_text(id, &text, turn));
                drop(room);
            }
            Input::Frame { id, fields } => {
                self.turn(effects, |gateway, turn| gateway.on_fields(id, fields, turn));
            }
            Input::Binary { id } => self.turn(effects, |gateway, turn| gateway.on_binary(id, turn)),
            Input::End { id } => {
                self.outlets.remove(&id);
                self.turn(effects, |gateway, turn| gateway.on_end(id, turn));
            }
            Input::Sync { done_tx } => {
                if let Err(error) = self.sessions.sync() {
                    tracing::error!(%error, "the sessions may not be on the disk");
                }
                // Whoever asked may have gone.
                let _ = done_tx.send(());
            }
        }
    }

    fn turn(&mut self, effects: &mut Vec<Effect>, input: impl FnOnce(&mut Gateway, &mut Turn<'_>)) {
        let mut turn = Turn { now_ms: now_ms(), sessions: &mut self.sessions, effects };
        input(&mut self.gateway, &mut turn);
    }

    /// Lets the effects out, once the disk has what they tell of.
    fn release(&mut self, effects: Vec<Effect>) {
        let kept = self.sessions.settle();
        if let Err(error) = &kept {
            // What cannot be kept must not be acknowledged: those concerned see their connections break instead.
            tracing::error!(%error, "the sessions cannot be written");
            let concerned: BTreeSet<_> = effects.iter().filter_map(target).collect();
            for id in concerned {
                self.close(id, close_code::INTERNAL, "the sessions cannot be written".to_owned());
            }
        }
        for effect in effects {
            match effect {
                Effect::Audit(record) => {
                    let is_granted = record.is_granted;
                    let event = || Event::Message {
                        client: record.client_id,
                        kind: record.kind,
                        id: record.id,
                        from: record.from,
                        agent: record.agent,
                        outcome: record.outcome,
                    };
                    match is_granted {
                        true => self.audit.record(event),
                        false => self.audit.record_unauthenticated(event),
                    }
                }
                Effect::Send { to, frame } if kept.is_ok() => self.send(to, frame),
                Effect::Close { to, code, reason } => self.close(to, code, reason),
                Effect::Send { .. } => {}
            }
        }
    }

    fn send(&mut self, id: ConnectionId, frame: Value) {
        if self.outlets.get(&id).is_some_and(|outlet| !outlet.send(frame)) {
            self.outlets.remove(&id);
        }
    }

    fn close(&mut self, id: ConnectionId, code: u16, reason: String) {
        if let Some(outlet) = self.outlets.remove(&id) {
            outlet.close(code, reason);
        }
    }
}

fn target(effect: &Effect) -> Option<ConnectionId> {
    match effect {
        Effect::Send { to, .. } => Some(*to),
        Effect::Close { .. } | Effect::Audit(_) => None,
    }
}

async fn pause(wait_ms: Option<u64>) {
    match wait_ms {
        Some(wait_ms) => tokio::time::sleep(Duration::from_millis(wait_ms)).await,
        None => std::future::pending().await,
    }
}

/// The time as it stands in frames.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

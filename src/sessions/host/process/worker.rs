//! The server's end of a worker process: messages of its sessions in and out.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ProcessHostParts;
use super::program::{WorkerProcess, WorkerProgram};
use super::watch::{self, Health};
use crate::catalog::Catalog;
use crate::observe;
use crate::quota::Account;
use crate::rpc::ErrorObject;
use crate::session::boundary::FromSession;
use crate::sessions::busy;
use crate::worker::catalogs::{self, SharedCatalogs};
use crate::worker::codec::{ENVELOPE_BYTES_MAX, FrameReader, write_frame};
use crate::worker::frame::{FromWorker, ToWorker, WorkerConfig};

/// Messages that wait to be written to a worker, of all its sessions.
const TO_WORKER_QUEUED_MAX: usize = 1024;

/// Messages of a session that wait here. When there are more, nothing more is read from its worker.
const FROM_SESSION_QUEUED_MAX: usize = 256;

/// Bytes that are written together.
const WRITE_BYTES_MAX: usize = 256 << 10;

/// How long a worker gets to start a session.
const START_WITHIN: Duration = Duration::from_secs(30);

/// What a worker says of one session.
pub(super) enum WorkerEvent {
    Started,
    Refused(ErrorObject),
    Message(FromSession),
}

/// A session in a worker: its number, and both ways.
pub(super) struct SessionChannel {
    pub(super) number: u64,
    pub(super) to_worker: mpsc::Sender<ToWorker>,
    pub(super) events_rx: mpsc::Receiver<WorkerEvent>,
    /// The worker lives as long as one of its sessions does.
    pub(super) worker: Arc<Worker>,
}

impl Drop for SessionChannel {
    fn drop(&mut self) {
        self.worker.sessions.lock().remove(&self.number);
    }
}

/// See the module. Dropped, it ends the process.
pub(super) struct Worker {
    to_worker: mpsc::Sender<ToWorker>,
    sessions: Arc<Mutex<HashMap<u64, mpsc::Sender<WorkerEvent>>>>,
    last_number: AtomicU64,
    ended: CancellationToken,
}

impl Worker {
    /// Starts a worker process, and waits until it is in its sandbox.
    pub(super) async fn start(
        program: &WorkerProgram,
        parts: &ProcessHostParts,
        config: &WorkerConfig,
        account: Arc<Account>,
    ) -> io::Result<Arc<Self>> {
        let (process, socket) = program.start(config).await?;
        let (read_half, write_half) = UnixStream::from_std(socket)?.into_split();
        let limits = &parts.limits;
        let frame_bytes_max = limits.message_bytes_max.max(limits.result_bytes_max) + ENVELOPE_BYTES_MAX;
        let mut reader = FrameReader::new(BufReader::new(read_half), frame_bytes_max);
        let ready = tokio::time::timeout(START_WITHIN, reader.next::<FromWorker>());
        match ready.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
            Some(FromWorker::Ready { .. }) => {}
            Some(FromWorker::Failed { problem }) => return Err(io::Error::other(problem)),
            _ => return Err(io::Error::other("the worker did not start")),
        }
        let (to_worker, to_worker_rx) = mpsc::channel(TO_WORKER_QUEUED_MAX);
        let sessions = Arc::<Mutex<HashMap<_, _>>>::default();
        let ended = CancellationToken::new();
        let health = Arc::new(Health::default());
        let worker = Self {
            to_worker: to_worker.clone(),
            sessions: Arc::clone(&sessions),
            last_number: AtomicU64::new(0),
            ended: ended.clone(),
        };
        let watch = watch::watch(
            process.id(),
            to_worker,
            Arc::clone(&health),
            account,
            Arc::clone(&parts.memory),
            Duration::from_millis(limits.cpu_ms_max),
        );
        let io = Io { process, sessions, health, ended };
        observe::record_worker("started");
        tokio::spawn(io.run(reader, write_half, to_worker_rx, watch));
        Ok(Arc::new(worker))
    }

    /// How many sessions it runs.
    pub(super) fn session_count(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Whether the process is gone.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Starts a session in the worker.
    pub(super) async fn start_session(
        self: Arc<Self>,
        id: String,
        principal: String,
        catalog: Arc<Catalog>,
    ) -> Result<SessionChannel, ErrorObject> {
        let number = self.last_number.fetch_add(1, Relaxed) + 1;
        let (events_tx, events_rx) = mpsc::channel(FROM_SESSION_QUEUED_MAX);
        self.sessions.lock().insert(number, events_tx);
        let to_worker = self.to_worker.clone();
        let mut channel = SessionChannel { number, to_worker, events_rx, worker: self };
        // The process may have ended before the session was in its list.
        if channel.worker.has_ended() {
            return Err(busy("the worker process has ended"));
        }
        let start = ToWorker::Start { session: number, id, principal, catalog };
        let _ = channel.to_worker.send(start).await;
        match channel.events_rx.recv().await {
            Some(WorkerEvent::Started) => Ok(channel),
            Some(WorkerEvent::Refused(error)) => Err(error),
            Some(WorkerEvent::Message(_)) | None => Err(busy("the worker process has ended")),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// What a worker's task has. When it ends, so do the process and its sessions.
struct Io {
    process: WorkerProcess,
    sessions: Arc<Mutex<HashMap<u64, mpsc::Sender<WorkerEvent>>>>,
    health: Arc<Health>,
    ended: CancellationToken,
}

impl Io {
    async fn run(
        self,
        reader: FrameReader<BufReader<OwnedReadHalf>>,
        write_half: OwnedWriteHalf,
        to_worker_rx: mpsc::Receiver<ToWorker>,
        watch: impl Future<Output = &'static str>,
    ) {
        let why = tokio::select! {
            () = self.ended.cancelled() => None,
            read = self.read(reader) => Some(read.map_or_else(|error| error.to_string(), |()| "it ended".to_owned())),
            written = write(write_half, to_worker_rx) => {
                Some(written.map_or_else(|error| error.to_string(), |()| "nothing leads to it".to_owned()))
            }
            reason = watch => Some(reason.to_owned()),
        };
        let sessions = self.sessions.lock().len();
        if let Some(reason) = why {
            tracing::warn!(process = self.process.id(), sessions, reason, "a worker process is lost");
            observe::record_worker("lost");
        }
        self.ended.cancel();
        drop(self.process);
        // Ends the sessions: their tasks see the end of their channels.
        self.sessions.lock().clear();
    }

    async fn read(&self, mut reader: FrameReader<BufReader<OwnedReadHalf>>) -> io::Result<()> {
        while let Some(message) = reader.next::<FromWorker>().await? {
            let (session, event) = match message {
                FromWorker::Started { session } => (session, WorkerEvent::Started),
                FromWorker::Refused { session, error } => (session, WorkerEvent::Refused(error)),
                FromWorker::Session { session, message } => (session, WorkerEvent::Message(message)),
                FromWorker::Pong { number, memory_bytes } => {
                    self.health.answer(number, memory_bytes);
                    continue;
                }
                FromWorker::Ready { .. } | FromWorker::Failed { .. } => {
                    return Err(io::Error::other("it was ready before"));
                }
            };
            let events_tx = self.sessions.lock().get(&session).cloned();
            if let Some(events_tx) = events_tx {
                // A session that has ended takes nothing more.
                let _ = events_tx.send(event).await;
            }
        }
        Ok(())
    }
}

/// Writes messages, those that are ready together with one call.
async fn write(mut socket: OwnedWriteHalf, mut messages_rx: mpsc::Receiver<ToWorker>) -> io::Result<()> {
    let (mut catalogs, mut buffer) = (SharedCatalogs::default(), Vec::new());
    while let Some(message) = messages_rx.recv().await {
        append(&mut buffer, &mut catalogs, message)?;
        while buffer.len() < WRITE_BYTES_MAX
            && let Ok(message) = messages_rx.try_recv()
        {
            append(&mut buffer, &mut catalogs, message)?;
        }
        socket.write_all(&buffer).await?;
        buffer.clear();
        buffer.shrink_to(WRITE_BYTES_MAX);
    }
    Ok(())
}

fn append(buffer: &mut Vec<u8>, catalogs: &mut SharedCatalogs, mut message: ToWorker) -> io::Result<()> {
    let place = match &mut message {
        ToWorker::Start { catalog, .. } => Some(catalog),
        ToWorker::Session { message, .. } => catalogs::in_message(message),
        ToWorker::Catalog(_) | ToWorker::Ping { .. } => None,
    };
    if let Some(catalog) = place.and_then(|place| catalogs.abbreviate(place)) {
        write_frame(buffer, &ToWorker::Catalog(catalog))?;
    }
    write_frame(buffer, &message)
}

//! The worker process: from its first message into the sandbox, and then sessions until the server closes the socket.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::WORKER_ARGUMENT;
use super::catalogs::{self, SharedCatalogs};
use super::codec::{FrameReader, SERVER_FRAME_BYTES_MAX, write_frame};
use super::frame::{FromWorker, ToWorker, WorkerConfig};
use super::port::{Outbox, WorkerPort};
use crate::catalog::Catalog;
use crate::limits::{DURATION_MAX, Limits};
use crate::quota::{Account, Quotas};
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::{
    Driver, DriverParts, HibernateWhen, Hibernation, HibernationSettings, MemoryTotal, SessionStart,
};
use crate::sandbox::{self, probe};
use crate::session::boundary::ToSession;
use crate::session::{SessionState, Time};

/// Messages that wait for a session. Its driver takes them in after every slice, so they hardly ever do.
const INBOX_QUEUED_MAX: usize = 256;

/// Whether this process was started as a worker.
pub fn is_worker() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == WORKER_ARGUMENT)
}

/// The whole life of a worker. Call it first in `main`, if [`is_worker`], before there is any other thread: the server
/// starts its own program again to run sessions apart from itself.
pub fn worker_main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    match arguments.as_slice() {
        [] => {}
        [attempt, parent, place] => {
            return probe::run(attempt, parent.parse().unwrap_or_default(), place == "inside");
        }
        _ => return probe::list(),
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing reads it unless someone starts a worker by hand.
            eprintln!("scomp-serve worker: {error}; it is started by the server");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    sandbox::close_inherited_descriptors()?;
    let mut control = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let config: WorkerConfig = read_config(&mut control)?;
    sandbox::end_with_parent(config.parent)?;
    // Everything that opens a file or makes a socket comes before the sandbox.
    let hibernation = open_hibernation(&config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    control.set_nonblocking(true)?;
    let ready = match enter_sandbox(&config) {
        Ok(walls) => FromWorker::Ready { version: config.version.clone(), walls },
        Err(problem) => FromWorker::Failed { problem },
    };
    let is_ready = matches!(ready, FromWorker::Ready { .. });
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let (read_half, write_half) = UnixStream::from_std(control)?.into_split();
        let outbox = Outbox::new(write_half);
        outbox.send(&ready);
        let reader = FrameReader::new(tokio::io::BufReader::new(read_half), SERVER_FRAME_BYTES_MAX);
        let worker = Worker::new(config.limits, hibernation, Rc::clone(&outbox));
        tokio::select! {
            served = worker.serve(reader), if is_ready => served,
            // Until the server closes the socket.
            written = outbox.write_all() => written,
        }
    })
}

/// Reads the first message without an event loop.
fn read_config(control: &mut StdUnixStream) -> io::Result<WorkerConfig> {
    let mut length = [0; 4];
    control.read_exact(&mut length)?;
    let mut text = Vec::new();
    control.take(u32::from_le_bytes(length).into()).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Writes the first message.
pub(crate) fn write_config(config: &WorkerConfig) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    write_frame(&mut buffer, config)?;
    Ok(buffer)
}

fn enter_sandbox(config: &WorkerConfig) -> Result<sandbox::Walls, String> {
    if config.version != env!("CARGO_PKG_VERSION") {
        return Err(format!("expected version {}, got {}", config.version, env!("CARGO_PKG_VERSION")));
    }
    sandbox::enter(config.strictness).map_err(|error| error.to_string())
}

fn open_hibernation(config: &WorkerConfig) -> Hibernation {
    let when = match config.hibernate_after_ms {
        0 => HibernateWhen::Never,
        after => HibernateWhen::Idle(Duration::from_millis(after).min(DURATION_MAX)),
    };
    let settings = HibernationSettings {
        when,
        folder: config.hibernate_folder.clone(),
        bytes_max: config.hibernated_bytes_max,
    };
    let hibernation = Hibernation::open(&settings);
    match hibernation.store.as_ref().map(|store| store.prepare()) {
        Some(Err(_)) => Hibernation::default(),
        Some(Ok(())) | None => hibernation,
    }
}

/// The sessions of a worker.
struct Worker {
    limits: Arc<Limits>,
    memory: Arc<MemoryTotal>,
    hibernation: Hibernation,
    /// Quotas are the server's: this one only names the principal to the scheduler.
    account: Arc<Account>,
    outbox: Rc<Outbox>,
    catalogs: SharedCatalogs,
    inboxes: HashMap<u64, mpsc::Sender<ToSession>>,
}

impl Worker {
    fn new(limits: Limits, hibernation: Hibernation, outbox: Rc<Outbox>) -> Self {
        Self {
            memory: MemoryTotal::new(limits.memory_total_bytes_max),
            limits: Arc::new(limits),
            hibernation,
            account: Arc::new(Account::new(Quotas::default(), Instant::now())),
            outbox,
            catalogs: SharedCatalogs::default(),
            inboxes: HashMap::new(),
        }
    }

    /// Takes messages until the server closes the socket.
    async fn serve<R: tokio::io::AsyncRead + Unpin>(mut self, mut reader: FrameReader<R>) -> io::Result<()> {
        while let Some(message) = reader.next::<ToWorker>().await? {
            match message {
                ToWorker::Catalog(catalog) => self.catalogs.insert(catalog),
                ToWorker::Start { session, id, principal, mut catalog } => {
                    self.catalogs.restore(&mut catalog);
                    let answer = match self.start(session, id, principal, catalog) {
                        Ok(()) => FromWorker::Started { session },
                        Err(error) => FromWorker::Refused { session, error },
                    };
                    self.outbox.send(&answer);
                }
                ToWorker::Session { session, message } => self.pass_on(session, message).await,
                ToWorker::Ping { number, memory_bytes_max } => {
                    self.memory.set_max(memory_bytes_max);
                    self.outbox.send(&FromWorker::Pong { number, memory_bytes: self.memory.drawn() });
                }
            }
        }
        Ok(())
    }

    async fn pass_on(&mut self, session: u64, mut message: ToSession) {
        if let Some(catalog) = catalogs::in_message(&mut message) {
            self.catalogs.restore(catalog);
        }
        let Some(inbox_tx) = self.inboxes.get(&session) else { return };
        if inbox_tx.send(message).await.is_err() {
            self.inboxes.remove(&session);
        }
    }

    fn start(
        &mut self,
        session: u64,
        id: String,
        principal: String,
        catalog: Arc<Catalog>,
    ) -> Result<(), ErrorObject> {
        self.inboxes.retain(|_, inbox_tx| !inbox_tx.is_closed());
        let (inbox_tx, inbox_rx) = mpsc::channel(INBOX_QUEUED_MAX);
        let port = Rc::new(WorkerPort::new(session, Rc::clone(&self.outbox)));
        let state = SessionState::new(id, principal, catalog, &self.limits, Time::default());
        let driver = Driver::new(DriverParts {
            start: SessionStart::Fresh(Box::new(state)),
            limits: Arc::clone(&self.limits),
            memory: Arc::clone(&self.memory),
            hibernation: self.hibernation.clone(),
            store: None,
            account: Arc::clone(&self.account),
            shard: None,
            port: Rc::<WorkerPort>::clone(&port),
            inbox: (inbox_tx.downgrade(), inbox_rx),
        });
        let driver = driver.map_err(|error| {
            port.forget();
            ErrorObject::new(Kind::Busy, error.to_string()).with("retryAfterMs", 1000)
        })?;
        self.inboxes.insert(session, inbox_tx);
        tokio::task::spawn_local(driver.run());
        Ok(())
    }
}

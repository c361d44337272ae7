//! A package served by an executable over its stdin and stdout.
//!
//! One process for all sessions, called concurrently. A supervisor owns it: when it ends, calls in flight fail with
//! `PeerGone`, and it is started again with back-off. Its bindings are fixed at the first start, because sessions already
//! know them; an executable that declares others after a restart counts as not started. Its configuration is sent in the
//! handshake, as `metadata.config`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::Environment;
use super::bridge::Bridge;
use super::config::FilledConfig;
use super::file::{PackageFile, Source};
use super::process::Process;
use super::stderr::StderrTail;
use crate::binding::is_control_name;
use crate::binding::{BindingError, Call, Handler, handler};
use crate::client::{Client, ClientError};
use crate::concurrency::{Backoff, random_fraction};
use crate::package::Secrets;
use crate::protocol::declaration::Declaration;
use crate::rpc::Kind;
use crate::transport::Lines;

/// How long an executable may take to answer the handshake.
/// Long enough for an interpreter on a busy machine, short enough that a start does not seem to hang.
const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(10);

/// The first wait before an executable that ended is started again; it doubles each time.
const RESTART_WAIT_FIRST: Duration = Duration::from_millis(200);

/// The longest such wait. One that ran for as long begins with the first wait again.
const RESTART_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long an executable may take to end after the end of its input when the server stops.
/// Time to write a file; the stop of the server waits for it.
const STOP_WAIT_MAX: Duration = Duration::from_secs(1);

/// Longest message both ways, the same as for clients.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// How long an executable that failed the handshake may take to exit by itself, for its status in the error.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Calls that may end without an answer before the executable is taken for hung and started again.
/// Half of what may wait for answers on one connection, so that there is always room for calls that are answered.
const CALLS_UNANSWERED_MAX: usize = 512;

/// The variables of our environment that every executable gets.
const ENV_PASSED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Why an executable was not started.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The operating system cannot start it.
    #[error("`{program}` cannot be started: {error}")]
    Spawn {
        /// The executable.
        program: String,
        /// The error of the system.
        error: io::Error,
    },
    /// It runs, but does not answer.
    #[error("`{program}` did not answer the handshake within {} s{end}", HANDSHAKE_WAIT_MAX.as_secs())]
    Silent {
        /// The executable.
        program: String,
        /// What it printed.
        end: String,
    },
    /// It refused the handshake, gave an invalid answer, or ended.
    #[error("`{program}` failed the handshake: {error}{end}")]
    Handshake {
        /// The executable.
        program: String,
        /// The cause.
        error: ClientError,
        /// Its exit status, if it ended, and what it printed.
        end: String,
    },
}

/// How an executable is started, each time.
pub(super) struct Launch {
    package: String,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    env: Environment,
    config: Value,
    secrets: Secrets,
}

impl Launch {
    pub(super) fn new(
        package: &PackageFile,
        folder: &Path,
        env: &Environment,
        FilledConfig { value: config, secrets }: FilledConfig,
    ) -> Option<Self> {
        let Source::Command(words) = &package.source else {
            return None;
        };
        let (program, arguments) = words.split_first()?;
        let passed = ENV_PASSED.into_iter().chain(package.env.iter().map(String::as_str));
        Some(Self {
            package: package.name.clone(),
            // A path is meant from the declaration's folder; a bare name is looked for in PATH.
            program: if program.contains('/') { folder.join(program) } else { PathBuf::from(program) },
            arguments: arguments.to_vec(),
            folder: folder.to_owned(),
            env: passed.filter_map(|name| Some((name.to_owned(), env.get(name)?.clone()))).collect(),
            config,
            secrets,
        })
    }

    /// Ends a process with everything in its group; returns when it has exited.
    async fn end(&self, process: Process) -> Option<ExitStatus> {
        let ended = process.end().await;
        let warn = |error: &io::Error| tracing::warn!(package = %self.package, %error, "the command cannot be ended");
        ended.inspect_err(warn).ok()
    }

    async fn start(&self) -> Result<Running, CommandError> {
        let program = self.program.display().to_string();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.folder).env_clear().envs(&self.env);
        let (process, (stdin, stdout, stderr)) = Process::start(command)
            .await
            .map_err(|error| CommandError::Spawn { program: program.clone(), error })?;
        let printed = StderrTail::default();
        let logging = printed.clone().read(self.package.clone(), self.secrets.clone(), stderr);
        let mut stderr_log = AbortOnDropHandle::new(tokio::spawn(logging));
        let introduction = json!({
            "client": {"name": "scomp-serve", "version": env!("CARGO_PKG_VERSION")},
            "config": self.config,
        });
        let shaking = Client::builder()
            .metadata(introduction)
            .message_bytes_max(MESSAGE_BYTES_MAX)
            .connect_transport(Lines::new(stdout, stdin, MESSAGE_BYTES_MAX));
        let error = match timeout(HANDSHAKE_WAIT_MAX, shaking).await {
            Ok(Ok(client)) => return Ok(Running { client, process, _stderr_log: stderr_log }),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        let has_exited = error.is_some() && timeout(EXIT_WAIT_MAX, process.exited()).await.is_ok();
        let status = self.end(process).await.filter(|_| has_exited);
        // What it wrote before its end is in the pipe, unless a descendant holds that open.
        let _ = timeout(EXIT_WAIT_MAX, &mut stderr_log).await;
        let status = status.map(|status| format!("; it ended with {status}")).unwrap_or_default();
        let end = printed.append_to(&status);
        Err(match error {
            Some(error) => CommandError::Handshake { program, error, end },
            None => CommandError::Silent { program, end },
        })
    }
}

/// An executable whose handshake is complete.
struct Running {
    client: Client,
    process: Process,
    _stderr_log: AbortOnDropHandle<()>,
}

/// The handle of a package that an executable serves; the executable ends when the last one is gone.
pub struct CommandPackage {
    name: String,
    bindings: Arc<[Value]>,
    current_rx: watch::Receiver<Option<Arc<CurrentRun>>>,
    end: CancellationToken,
    ended: CancellationToken,
    _ends_when_dropped: DropGuard,
}

/// One run of the executable, as calls see it.
struct CurrentRun {
    client: Client,
    /// The number of its start, from 1.
    start: u64,
    /// Consecutive calls that ended before their answer.
    unanswered: AtomicUsize,
    hung: CancellationToken,
}

impl CommandPackage {
    /// Starts the executable and keeps it running.
    pub(super) async fn start(launch: Launch) -> Result<Self, CommandError> {
        let running = launch.start().await?;
        let bindings = running.client.bindings();
        let (current_tx, current_rx) = watch::channel(None);
        let (end, ended) = (CancellationToken::new(), CancellationToken::new());
        let package = Self {
            name: launch.package.clone(),
            bindings: Arc::clone(&bindings),
            current_rx,
            end: end.clone(),
            ended: ended.clone(),
            _ends_when_dropped: end.clone().drop_guard(),
        };
        let supervisor = Supervisor { launch, bindings, current_tx };
        let ended = ended.drop_guard();
        tokio::spawn(async move {
            // Dropped with the task, also where its runtime ends before it does.
            let _ended = ended;
            supervisor.run(running, &end).await;
        });
        Ok(package)
    }

    /// Ends the executable for good; returns when it has exited.
    pub async fn stop(&self) {
        self.end.cancel();
        self.ended.cancelled().await;
    }

    /// The package's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the executable runs at the moment.
    pub fn is_running(&self) -> bool {
        self.current_rx.borrow().is_some()
    }

    /// Waits until the executable was started that many times, the first time included.
    pub async fn started(&self, times: u64) {
        let is_started =
            |current: &Option<Arc<CurrentRun>>| current.as_ref().is_some_and(|run| run.start >= times);
        // The sender lives as long as this handle does.
        let _ = self.current_rx.clone().wait_for(is_started).await;
    }

    /// What the executable declared.
    pub(super) fn bindings(&self) -> &[Value] {
        &self.bindings
    }

    /// The handler that forwards calls of one binding.
    pub(super) fn handler(self: &Arc<Self>, declaration: &Declaration) -> Arc<dyn Handler> {
        let package = Arc::clone(self);
        let binding: Arc<str> = declaration.name.as_str().into();
        handler(move |input, call| {
            let (package, binding) = (Arc::clone(&package), Arc::clone(&binding));
            async move { package.call(&binding, input, call).await }
        })
    }

    async fn call(&self, binding: &str, input: Value, call: Call) -> Result<Value, BindingError> {
        let Some(run) = self.current_rx.borrow().clone() else {
            let message = format!("the command of `{}` ended and is being restarted", self.name);
            return Err(BindingError::of_kind(Kind::PeerGone, message));
        };
        let bridge = Bridge::new(run.client.clone(), &call);
        let input = bridge.to_peer(input, call.functions.clone()).await?;
        let mut pending = PendingCall { run: &run, answered: false };
        let outcome = run.client.invoke(binding, input).await;
        pending.answered = true;
        bridge.accept(outcome)
    }
}

/// Counts a call that ends before its answer.
struct PendingCall<'a> {
    run: &'a CurrentRun,
    answered: bool,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        if self.answered {
            self.run.unanswered.store(0, Ordering::Relaxed);
        } else if self.run.unanswered.fetch_add(1, Ordering::Relaxed) + 1 == CALLS_UNANSWERED_MAX {
            self.run.hung.cancel();
        }
    }
}

impl std::fmt::Debug for CommandPackage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandPackage").field("name", &self.name).finish_non_exhaustive()
    }
}

struct Supervisor {
    launch: Launch,
    bindings: Arc<[Value]>,
    current_tx: watch::Sender<Option<Arc<CurrentRun>>>,
}

impl Supervisor {
    async fn run(self, mut running: Running, end: &CancellationToken) {
        let mut backoff = Backoff::new(RESTART_WAIT_FIRST, RESTART_WAIT_MAX);
        for start in 1.. {
            let started = Instant::now();
            let hung = self.announce(&running, start);
            tokio::select! {
                _ = running.client.closed() => {}
                () = hung.cancelled() => {
                    tracing::error!(package = %self.launch.package, "the command stopped answering calls");
                }
                () = end.cancelled() => {
                    self.current_tx.send_replace(None);
                    return self.stop(running).await;
                }
            }
            self.current_tx.send_replace(None);
            self.launch.end(running.process).await;
            tracing::warn!(package = %self.launch.package, "the command ended");
            if started.elapsed() >= RESTART_WAIT_MAX {
                backoff.reset();
            }
            running = tokio::select! {
                running = self.restart(&mut backoff) => running,
                () = end.cancelled() => return,
            };
        }
    }

    /// Lets calls through. The returned token is cancelled when they are not answered.
    fn announce(&self, running: &Running, start: u64) -> CancellationToken {
        let hung = CancellationToken::new();
        self.current_tx.send_replace(Some(Arc::new(CurrentRun {
            client: running.client.clone(),
            start,
            unanswered: AtomicUsize::new(0),
            hung: hung.clone(),
        })));
        hung
    }

    /// Ends the executable because the server stops: the end of its input comes first, so that it can finish.
    async fn stop(&self, running: Running) {
        let finish = async {
            running.client.close().await;
            running.process.exited().await;
        };
        // One that has not ended by then is killed now; so is what it started, either way.
        let _ = timeout(STOP_WAIT_MAX, finish).await;
        self.launch.end(running.process).await;
    }

    async fn restart(&self, backoff: &mut Backoff) -> Running {
        let package = &self.launch.package;
        loop {
            sleep(backoff.next_wait(random_fraction())).await;
            match self.launch.start().await {
                Ok(running) if running.client.bindings() == self.bindings => {
                    tracing::info!(%package, "the command was restarted");
                    return running;
                }
                Ok(running) => {
                    tracing::error!(%package, "the command restarted with other bindings");
                    self.launch.end(running.process).await;
                }
                Err(error) => tracing::error!(%package, %error, "the command cannot be restarted"),
            }
        }
    }
}

/// The declarations in the answer to a handshake, without those of a server's own control bindings.
pub(super) fn declarations(bindings: &[Value]) -> Result<Vec<Declaration>, String> {
    let mut declared = Vec::new();
    for (at, binding) in bindings.iter().enumerate() {
        let declaration = Declaration::from_peer(binding).map_err(|error| {
            format!("the command's answer: /bindings/{at}{}: {}", error.path, error.message)
        })?;
        if !is_control_name(&declaration.name) {
            declared.push(declaration);
        }
    }
    Ok(declared)
}

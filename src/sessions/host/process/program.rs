//! The program that workers run: how it is started, ended, and checked before the server serves.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::concurrency::{JobThread, ResourceJob, ThreadStopped};
use crate::sandbox::probe::{self, Fate, PROBES, Probe};
use crate::sandbox::{Strictness, Walls};
use crate::worker::frame::{FromWorker, WorkerConfig};
use crate::worker::{WORKER_ARGUMENT, write_config};

/// Workers that wait to be started or ended.
const JOBS_QUEUED_MAX: usize = 1024;

/// How long a worker gets to say that it is ready, when the server starts.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Where the system leads to the program that runs, also after its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The program that is started as a worker: one whose `main` calls [`worker_main`](crate::worker::worker_main).
#[derive(Debug, Clone)]
pub(super) struct WorkerProgram(PathBuf);

/// Workers cannot run here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// The program does not start, or is not a worker.
    #[error("cannot start worker processes: {0}")]
    Start(String),
    /// A wall of the sandbox cannot be put up.
    #[error(
        "the sandbox of worker processes cannot be put up: {0}. It needs seccomp and Landlock, which containers may forbid. \
         To go on with the walls that can be put up, set sandbox = \"best-effort\" (SCOMP_SANDBOX=best-effort); to run \
         scripts in the server's own process, isolation = \"thread\" (SCOMP_ISOLATION=thread)"
    )]
    Sandbox(String),
    /// A wall does not hold what it is for.
    #[error(
        "the sandbox of worker processes does not stop {0:?}; set isolation = \"thread\" to run without it"
    )]
    Breach(&'static str),
}

impl WorkerProgram {
    /// That program, or else the one that runs now.
    pub(super) fn new(path: Option<&Path>) -> Self {
        Self(path.unwrap_or(Path::new(THIS_PROGRAM)).to_owned())
    }

    /// Starts a worker and sends it the configuration. The thread that does it lives as long as the server, because the
    /// kernel ends a worker with the thread that started it.
    pub(super) async fn start(&self, config: &WorkerConfig) -> io::Result<(WorkerProcess, UnixStream)> {
        let (program, config) = (self.0.clone(), write_config(config)?);
        let thread = supervisor()?;
        let started = thread.run(move |()| start(&program, &config)).await;
        started.map_err(|ThreadStopped| io::Error::other("the thread that starts workers has ended"))?
    }

    /// Starts one worker and one process for each thing that it must not be able to do.
    pub(super) fn check(&self, config: &WorkerConfig) -> Result<Walls, ProgramError> {
        let walls = self.check_start(config)?;
        if config.strictness == Strictness::Enforce {
            let running: Vec<_> = PROBES.iter().map(|probe| (probe, self.start_probe(probe, true))).collect();
            for (probe, child) in running {
                let status = child.and_then(|mut child| child.wait());
                let status = status.map_err(|error| ProgramError::Start(error.to_string()))?;
                if !is_stopped(probe, status) {
                    return Err(ProgramError::Breach(probe.name));
                }
            }
        }
        Ok(walls)
    }

    fn check_start(&self, config: &WorkerConfig) -> Result<Walls, ProgramError> {
        let failed = |error: io::Error| ProgramError::Start(format!("{}: {error}", self.0.display()));
        let config = write_config(config).map_err(failed)?;
        let (_process, mut control) = start(&self.0, &config).map_err(failed)?;
        control
            .set_nonblocking(false)
            .and_then(|()| control.set_read_timeout(Some(READY_WITHIN)))
            .map_err(failed)?;
        let answer = read_answer(&mut control).map_err(failed)?;
        match answer {
            FromWorker::Ready { version, walls } if version == env!("CARGO_PKG_VERSION") => Ok(walls),
            FromWorker::Failed { problem } => Err(ProgramError::Sandbox(problem)),
            _ => Err(ProgramError::Start(format!("{} is not a worker of this version", self.0.display()))),
        }
    }

    /// Starts a process that attempts what the sandbox forbids.
    pub(super) fn start_probe(&self, probe: &Probe, is_inside: bool) -> io::Result<Child> {
        command(&self.0)
            .args([probe.name, &std::process::id().to_string(), if is_inside { "inside" } else { "outside" }])
            .stdin(Stdio::null())
            .spawn()
    }
}

/// Whether the sandbox stopped a probe in the way that it should.
pub(super) fn is_stopped(probe: &Probe, status: ExitStatus) -> bool {
    match probe.fate {
        Fate::Killed => status.signal() == Some(libc::SIGSYS),
        Fate::Refused => status.code() == Some(probe::REFUSED.into()),
    }
}

fn read_answer(control: &mut UnixStream) -> io::Result<FromWorker> {
    let mut length = [0; 4];
    control.read_exact(&mut length)?;
    let mut text = Vec::new();
    control.take(u32::from_le_bytes(length).into()).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// A worker process; it is ended when this is dropped.
pub(super) struct WorkerProcess(Option<Child>);

impl WorkerProcess {
    /// Its number; 0 once it is being ended.
    pub(super) fn id(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        let _ = child.kill();
        // Until it is waited for it is a zombie. It was killed, so this takes a moment, but not one of a shard.
        let reap: ResourceJob<()> = Box::new(move |()| drop(child.wait()));
        if let Ok(thread) = supervisor()
            && let Err(error) = thread.try_send(reap)
        {
            error.into_job()(&mut ());
        }
    }
}

fn supervisor() -> io::Result<&'static JobThread<ResourceJob<()>>> {
    static SUPERVISOR: OnceLock<JobThread<ResourceJob<()>>> = OnceLock::new();
    if let Some(supervisor) = SUPERVISOR.get() {
        return Ok(supervisor);
    }
    let supervisor = JobThread::owning("workers", JOBS_QUEUED_MAX, ())?;
    // Of two threads made concurrently the second ends here: its queue is dropped.
    Ok(SUPERVISOR.get_or_init(|| supervisor))
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(WORKER_ARGUMENT).env_clear().stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(zone) = std::env::var_os("TZ") {
        command.env("TZ", zone);
    }
    command
}

fn start(program: &Path, config: &[u8]) -> io::Result<(WorkerProcess, UnixStream)> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let child = command(program).stdin(OwnedFd::from(theirs)).spawn()?;
    let process = WorkerProcess(Some(child));
    ours.write_all(config)?;
    ours.set_nonblocking(true)?;
    Ok((process, ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_is_not_a_worker_is_refused() {
        let config = WorkerConfig {
            version: "0".to_owned(),
            parent: std::process::id(),
            strictness: Strictness::Enforce,
            limits: crate::limits::Limits::default(),
            hibernate_after_ms: 0,
            hibernate_folder: None,
            hibernated_bytes_max: 0,
        };
        for program in ["/bin/true", "/nonexistent/program"] {
            let refused = WorkerProgram::new(Some(Path::new(program))).check(&config).unwrap_err();
            assert!(matches!(refused, ProgramError::Start(_)), "{refused}");
            assert!(refused.to_string().contains(program), "{refused}");
        }
    }
}

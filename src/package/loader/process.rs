//! The process of an executable, which ends when the server does, however that ends.
//!
//! It leads a process group of its own, so that ending it ends what it started too. Three things end the group:
//! [`Process::end`] and the drop of a [`Process`] while the server lives; the kernel, for the process itself on Linux,
//! when the server is killed; and a guard for the rest of the group, a shell that waits for the end of a pipe which only
//! the server holds. A descendant that leaves the group, as a daemon does, is on its own.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::concurrency::{JobThread, ResourceJob};

/// Starts that wait for the one thread that makes them. A folder has a handful of executables.
const STARTS_QUEUED_MAX: usize = 16;

/// How long a killed process may take to exit. Only one stuck in the kernel, say on a dead disk, takes longer.
const KILL_WAIT_MAX: Duration = Duration::from_secs(5);

/// How often a process that is about to end is checked. No system call waits for its exit without reaping it.
const EXIT_CHECK_EVERY: Duration = Duration::from_millis(10);

/// What the guard of a group runs: its stdin ends with the server, and its name (`$0`) is the number of the group.
#[cfg(unix)]
const GUARD_SCRIPT: &str = r#"read -r _; kill -s KILL -- "-$0" || kill -s KILL "-$0""#;

type Starter = JobThread<ResourceJob<()>>;

/// A running process and its group. Dropping it kills both.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    guard: Option<Child>,
}

/// The pipes of a process.
pub(crate) type Pipes = (ChildStdin, ChildStdout, ChildStderr);

impl Process {
    /// Starts a command with pipes.
    pub(crate) async fn start(mut command: Command) -> io::Result<(Self, Pipes)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        tie_to_server(&mut command);
        let runtime = Handle::current();
        let start = move |_: &mut ()| {
            let _inside = runtime.enter();
            command.spawn().map(|child| {
                let guard = child.id().and_then(start_guard);
                Self { child, guard }
            })
        };
        // A caller that stops waiting leaves a process that is dropped, and thereby killed.
        let mut process = starter()?.run(start).await.map_err(io::Error::other)??;
        let child = &mut process.child;
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let ((stdin, stdout), stderr) = pipes.ok_or_else(|| io::Error::other("it has no pipes"))?;
        Ok((process, (stdin, stdout, stderr)))
    }

    /// Waits until the process has exited. It is not reaped yet: its number, and so that of the group, stays its own.
    pub(crate) async fn exited(&self) {
        while self.child.id().is_some_and(is_alive) {
            sleep(EXIT_CHECK_EVERY).await;
        }
    }

    /// Kills the group and waits until the process is gone, so that it leaves no zombie. The status is that of the
    /// process itself if it had exited before.
    pub(crate) async fn end(mut self) -> io::Result<ExitStatus> {
        self.kill_group();
        let ended = timeout(KILL_WAIT_MAX, self.child.wait()).await;
        if let Some(mut guard) = self.guard.take() {
            // It is a shell of ours that waits: nothing keeps it.
            let _ = timeout(KILL_WAIT_MAX, guard.kill()).await;
        }
        match ended {
            Ok(status) => status,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it was killed and has not exited")),
        }
    }

    /// Kills the group. The guard goes first: it must not act on a number that the system may give away soon.
    fn kill_group(&mut self) {
        if let Some(guard) = &mut self.guard {
            // It may have exited already.
            let _ = guard.start_kill();
        }
        // Until the process is waited for, its number, which is that of the group, stays its own.
        if let Some(leader) = self.child.id() {
            kill_group_of(leader);
        }
        let _ = self.child.start_kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// The thread that starts processes. The kernel ends a process with the *thread* that started it, so that
/// has to be one that lives as long as the server.
fn starter() -> io::Result<&'static Starter> {
    static STARTER: OnceLock<Starter> = OnceLock::new();
    if let Some(starter) = STARTER.get() {
        return Ok(starter);
    }
    let starter = JobThread::owning("processes", STARTS_QUEUED_MAX, ())?;
    // Of two threads made concurrently the second ends here: its queue is dropped.
    Ok(STARTER.get_or_init(|| starter))
}

/// Starts the guard of a group. Without a shell there is no guard: then the kernel ends the process itself, and what it
/// started sees the end of its pipes.
#[cfg(unix)]
fn start_guard(group: u32) -> Option<Child> {
    let started = Command::new("/bin/sh")
        .args(["-c", GUARD_SCRIPT, &group.to_string()])
        .current_dir("/")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Not in the server's group: a Ctrl-C at its terminal is not for the guard.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    started.inspect_err(|error| tracing::debug!(%error, "a process group has no guard")).ok()
}

#[cfg(not(unix))]
fn start_guard(_group: u32) -> Option<Child> {
    None
}

/// Makes the process lead a group, and, on Linux, end with the server.
#[cfg(unix)]
#[allow(unsafe_code)]
fn tie_to_server(command: &mut Command) {
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        let server = std::process::id();
        let ask_kernel = move || {
            // SAFETY: system calls without pointers, which is what may be called between fork and exec.
            let (result, parent) =
                unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
            // A server that ended in between is not noticed by the kernel any more.
            let is_ours = u32::try_from(parent).is_ok_and(|parent| parent == server);
            match result == 0 && is_ours {
                true => Ok(()),
                false => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            }
        };
        // SAFETY: `ask_kernel` makes system calls only; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(ask_kernel) };
    }
}

#[cfg(not(unix))]
fn tie_to_server(_command: &mut Command) {}

#[cfg(unix)]
#[allow(unsafe_code)]
fn kill_group_of(leader: u32) {
    if let Ok(leader) = libc::pid_t::try_from(leader)
        && leader > 1
    {
        // SAFETY: a call with plain numbers. A group without members fails it, which is as good.
        let _ = unsafe { libc::kill(-leader, libc::SIGKILL) };
    }
}

#[cfg(not(unix))]
fn kill_group_of(_leader: u32) {}

/// Whether a child of ours has not exited yet.
#[cfg(unix)]
#[allow(unsafe_code)]
fn is_alive(child: u32) -> bool {
    let look = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all zeros is a value of this plain struct, which `waitid` fills in; it is left as it is while the child
    // runs, and its number is then 0.
    let (looked, number) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_PID, child, &mut info, look), info.si_pid())
    };
    looked == 0 && number == 0
}

#[cfg(not(unix))]
fn is_alive(_child: u32) -> bool {
    false
}

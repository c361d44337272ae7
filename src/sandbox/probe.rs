//! Attempts to do what the sandbox forbids, one in each process: the server makes them at start, and so do the tests.
//!
//! A probe enters the sandbox and then makes one attempt in the way that native code of an attacker would: by the system
//! call itself. It ends with [`REACHED`] if the attempt succeeded. A wall that stands ends it by a signal, or lets the
//! call fail, which is reported as [`REFUSED`].
//!
//! One of the modules with `unsafe`: it makes system calls as they are.
#![allow(unsafe_code)]

use std::process::ExitCode;

use super::Strictness;

/// Exit code of a probe whose attempt failed.
pub(crate) const REFUSED: u8 = 40;

/// Exit code of a probe whose attempt succeeded.
pub(crate) const REACHED: u8 = 41;

/// Exit code of a probe that could not enter the sandbox.
pub(crate) const NO_SANDBOX: u8 = 42;

/// What becomes of an attempt inside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The system call ends the process.
    Killed,
    /// The system call fails.
    Refused,
}

/// What native code in a worker might try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    pub(crate) fate: Fate,
    attempt: fn(parent: i64) -> libc::c_long,
}

const fn killed(name: &'static str, attempt: fn(i64) -> libc::c_long) -> Probe {
    Probe { name, fate: Fate::Killed, attempt }
}

const fn refused(name: &'static str, attempt: fn(i64) -> libc::c_long) -> Probe {
    Probe { name, fate: Fate::Refused, attempt }
}

/// Every attempt.
pub(crate) const PROBES: &[Probe] = &[
    refused("open-file", |_| call(libc::SYS_openat, [at_cwd(), path(c"/etc/passwd"), 0, 0])),
    refused("open-file-old", |_| call(libc::SYS_open, [path(c"/etc/passwd"), 0, 0, 0])),
    refused("parent-memory", open_memory_of),
    refused("file-facts", |_| call(libc::SYS_access, [path(c"/etc/passwd"), 0, 0, 0])),
    killed("remove-file", |_| call(libc::SYS_unlink, [path(c"/nonexistent"), 0, 0, 0])),
    killed("list-folder", |_| call(libc::SYS_getdents64, [0; 4])),
    killed("change-folder", |_| call(libc::SYS_chdir, [path(c"/"), 0, 0, 0])),
    killed("read-process", |parent| call(libc::SYS_process_vm_readv, [parent, 0, 0, 0])),
    killed("trace-parent", |parent| call(libc::SYS_ptrace, [i64::from(libc::PTRACE_SEIZE), parent, 0, 0])),
    killed("signal-parent", |parent| call(libc::SYS_kill, [parent, 0, 0, 0])),
    killed("signal-thread", |parent| call(libc::SYS_tgkill, [parent, parent, 0, 0])),
    killed("take-descriptor", |parent| call(libc::SYS_pidfd_open, [parent, 0, 0, 0])),
    killed("socket", |_| call(libc::SYS_socket, [i64::from(libc::AF_INET), 1, 0, 0])),
    killed("socket-pair", |_| call(libc::SYS_socketpair, [i64::from(libc::AF_UNIX), 1, 0, 0])),
    killed("connect", |_| call(libc::SYS_connect, [0; 4])),
    killed("fork", |_| call(libc::SYS_fork, [0; 4])),
    killed("thread", |_| call(libc::SYS_clone, [i64::from(libc::CLONE_VM), 0, 0, 0])),
    killed("thread-new", |_| call(libc::SYS_clone3, [0; 4])),
    killed("execute", |_| call(libc::SYS_execve, [path(c"/bin/true"), 0, 0, 0])),
    killed("map-code", |_| map(libc::PROT_READ | libc::PROT_EXEC)),
    killed("make-code", make_code),
    killed("anonymous-file", |_| call(libc::SYS_memfd_create, [path(c"probe"), 0, 0, 0])),
    killed("namespace", |_| call(libc::SYS_unshare, [i64::from(libc::CLONE_NEWUSER), 0, 0, 0])),
    killed("process-flag", |_| call(libc::SYS_prctl, [i64::from(libc::PR_SET_DUMPABLE), 1, 0, 0])),
    killed("kernel-queue", |_| call(libc::SYS_io_uring_setup, [1, 0, 0, 0])),
    killed("kernel-program", |_| call(libc::SYS_bpf, [0; 4])),
    killed("mount", |_| call(libc::SYS_mount, [0; 4])),
    killed("shared-memory", |_| call(libc::SYS_shmget, [0, 4096, 0o1600, 0])),
    killed("user-id", |_| call(libc::SYS_setuid, [0; 4])),
    killed("terminal", |_| call(libc::SYS_ioctl, [0, number(libc::TIOCSTI), 0, 0])),
];

/// Prints the names of the attempts, and what becomes of each.
pub(crate) fn list() -> ExitCode {
    for Probe { name, fate, .. } in PROBES {
        println!("{name} {}", if *fate == Fate::Killed { "killed" } else { "refused" });
    }
    ExitCode::SUCCESS
}

/// Makes the attempt of that name, inside the sandbox or, to prove that it is the sandbox that stops it, outside.
pub(crate) fn run(name: &str, parent: u32, is_inside: bool) -> ExitCode {
    let Some(probe) = PROBES.iter().find(|probe| probe.name == name) else { return ExitCode::from(2) };
    if is_inside && super::enter(Strictness::Enforce).is_err() {
        return ExitCode::from(NO_SANDBOX);
    }
    ExitCode::from(if (probe.attempt)(i64::from(parent)) >= 0 { REACHED } else { REFUSED })
}

fn number(value: libc::Ioctl) -> i64 {
    i64::try_from(value).unwrap_or_default()
}

fn at_cwd() -> i64 {
    i64::from(libc::AT_FDCWD)
}

fn path(path: &'static std::ffi::CStr) -> i64 {
    i64::try_from(path.as_ptr().addr()).unwrap_or_default()
}

fn call(number: libc::c_long, [a, b, c, d]: [i64; 4]) -> libc::c_long {
    // SAFETY: the pointers among the arguments are texts of this program or null, which the kernel checks.
    unsafe { libc::syscall(number, a, b, c, d) }
}

fn open_memory_of(parent: i64) -> libc::c_long {
    let Ok(path) = std::ffi::CString::new(format!("/proc/{parent}/mem")) else { return -1 };
    // SAFETY: the text outlives the call.
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDWR) }
}

fn map(protection: libc::c_int) -> libc::c_long {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice.
    unsafe { libc::syscall(libc::SYS_mmap, 0, 4096, protection, flags, -1, 0) }
}

fn make_code(_parent: i64) -> libc::c_long {
    let page = map(libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a page that was mapped for this.
    unsafe { libc::syscall(libc::SYS_mprotect, page, 4096, libc::PROT_READ | libc::PROT_EXEC) }
}

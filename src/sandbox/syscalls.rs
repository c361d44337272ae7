//! The system calls that a process in the sandbox may make.
//!
//! A list of what is allowed: a call that is not on it ends the process. Two exceptions. Calls of the C library that look
//! something up in the file system fail with `EPERM` instead, because the library copes with that and asks without need.
//! And memory can be mapped, but never as code.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::walls::SandboxError;

/// Allowed whatever their arguments are.
const ALLOWED: &[libc::c_long] = &[
    // The control socket, the file for heaps.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_close,
    // The event loop.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_poll,
    libc::SYS_ppoll,
    // Memory; `mmap` and `mprotect` are below.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Time, randomness, waiting.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_restart_syscall,
    // The process itself.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Fail with `EPERM`: the C library and the allocator ask without depending on the answer.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_open,
    libc::SYS_newfstatat,
    libc::SYS_stat,
    libc::SYS_statx,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
];

/// Restricts the calls of this thread and of those that it starts.
pub(super) fn restrict() -> Result<(), SandboxError> {
    // The one that refuses comes first: after the other one no filter can be added.
    let refused = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    install(refused, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?;
    let mut allowed: BTreeMap<libc::c_long, Vec<SeccompRule>> =
        ALLOWED.iter().chain(REFUSED).map(|call| (*call, Vec::new())).collect();
    allowed.extend(conditional()?);
    install(allowed, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// Allowed only with some arguments.
fn conditional() -> Result<Vec<(libc::c_long, Vec<SeccompRule>)>, SandboxError> {
    let exec = u64::try_from(libc::PROT_EXEC).unwrap_or_default();
    let no_code = || rule(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(exec), 0);
    let is = |argument, value| rule(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let own = u64::from(std::process::id());
    Ok(vec![
        (libc::SYS_mmap, vec![no_code()?]),
        (libc::SYS_mprotect, vec![no_code()?]),
        // `abort`, which ends this process alone.
        (libc::SYS_tgkill, vec![is(0, own)?]),
        // Descriptors: flags only, no copies beyond the limit, no locks, no owners.
        (
            libc::SYS_fcntl,
            vec![
                is(1, number(libc::F_GETFL))?,
                is(1, number(libc::F_SETFL))?,
                is(1, number(libc::F_GETFD))?,
                is(1, number(libc::F_SETFD))?,
                is(1, number(libc::F_DUPFD_CLOEXEC))?,
            ],
        ),
        (libc::SYS_ioctl, vec![is(1, libc::FIONBIO)?]),
    ])
}

fn number(value: libc::c_int) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

fn rule(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, SandboxError> {
    SeccompCondition::new(argument, length, operator, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| SandboxError::new("seccomp", &error))
}

fn install(
    calls: BTreeMap<libc::c_long, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    on_match: SeccompAction,
) -> Result<(), SandboxError> {
    let failed = |error: &dyn ToString| SandboxError::new("seccomp", &error.to_string());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failed(&error))?;
    let filter = SeccompFilter::new(calls, otherwise, on_match, arch).map_err(|error| failed(&error))?;
    let program = BpfProgram::try_from(filter).map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(&error))
}

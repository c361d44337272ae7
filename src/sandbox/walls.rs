//! How the walls are put up.
//!
//! [`enter`] takes away, from a process that has one thread, what it does not need: new privileges, being looked into,
//! every file and address (Landlock), and every system call that is not on a list ([`syscalls`](super::syscalls)). There is no way back.
//! Code that an engine bug lets a script run can then compute, use the descriptors that are open, and nothing else.
//!
//! One of the modules with `unsafe`: calls of the system about the process itself.
#![allow(unsafe_code)]

use std::io;

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};

use super::{Strictness, Walls, syscalls};

/// Descriptors that a process in the sandbox may have open: its control socket, an event loop, a file for heaps, and
/// some to spare.
const DESCRIPTORS_MAX: libc::rlim_t = 64;

/// The newest Landlock rights that are asked for. Those that the kernel does not know are left out.
const LANDLOCK_ABI: ABI = ABI::V6;

/// A wall could not be put up.
#[derive(Debug, thiserror::Error)]
#[error("{wall}: {problem}")]
pub(crate) struct SandboxError {
    wall: &'static str,
    problem: String,
}

impl SandboxError {
    pub(super) fn new(wall: &'static str, problem: &impl ToString) -> Self {
        Self { wall, problem: problem.to_string() }
    }
}

/// Ends this process when its parent does, and fails if that has happened already.
///
/// The kernel follows the *thread* that started this process: that has to be one that lives as long as the parent.
pub(crate) fn end_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: system calls without pointers.
    let (result, found) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    match u32::try_from(found).is_ok_and(|found| found == parent) {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
    }
}

/// Closes every descriptor but stdin, stdout and stderr, whatever was inherited.
pub(crate) fn close_inherited_descriptors() -> io::Result<()> {
    // SAFETY: a system call without pointers. Nothing of this process has opened a descriptor yet, so none is in use.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts up the walls around this process. It must have one thread: the walls hold for the calling thread and those that
/// come after it. What the process needs of the file system it must have opened.
pub(crate) fn enter(strictness: Strictness) -> Result<Walls, SandboxError> {
    // Asked for time zones the C library reads files, but only once.
    // SAFETY: there is one thread, so the environment does not change meanwhile.
    unsafe { tzset() };
    // Required by both walls below for a process without privileges; it also makes set-user-id programs harmless.
    set_process_flag(libc::PR_SET_NO_NEW_PRIVS, 1)
        .map_err(|error| SandboxError::new("no_new_privs", &error))?;
    set_process_flag(libc::PR_SET_DUMPABLE, 0).map_err(|error| SandboxError::new("dumpable", &error))?;
    limit(libc::RLIMIT_CORE, 0)?;
    limit(libc::RLIMIT_NOFILE, DESCRIPTORS_MAX)?;
    let mut walls = Walls::default();
    match restrict_files_and_addresses() {
        Ok(()) => walls.landlock = true,
        Err(error) if strictness == Strictness::Enforce => return Err(error),
        Err(_) => {}
    }
    match syscalls::restrict() {
        Ok(()) => walls.seccomp = true,
        Err(error) if strictness == Strictness::Enforce => return Err(error),
        Err(_) => {}
    }
    Ok(walls)
}

unsafe extern "C" {
    fn tzset();
}

fn set_process_flag(flag: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: a system call with plain numbers.
    let result = unsafe { libc::prctl(flag, value, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn limit(resource: libc::__rlimit_resource_t, most: libc::rlim_t) -> Result<(), SandboxError> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the struct outlives the call.
    match unsafe { libc::setrlimit(resource, &limit) } {
        0 => Ok(()),
        _ => Err(SandboxError::new("rlimit", &io::Error::last_os_error())),
    }
}

/// Landlock without any right. Files need the first version of it; rights of later versions are taken where they exist.
fn restrict_files_and_addresses() -> Result<(), SandboxError> {
    let failed = |error: landlock::RulesetError| SandboxError::new("Landlock", &error);
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .map_err(failed)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK_ABI)))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK_ABI)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(failed)?;
    Ok(())
}

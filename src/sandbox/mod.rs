//! Walls of the operating system around a process that runs scripts of strangers.
//!
//! Code that an engine bug lets a script run inside them can compute, use the descriptors that are open, and nothing
//! else ([`walls`], [`syscalls`]). Each wall is tested from inside by [`probe`]: a process enters the sandbox and tries one
//! forbidden thing. Only on Linux on x86-64.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) mod probe;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod syscalls;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod walls;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use walls::{close_inherited_descriptors, end_with_parent, enter};

/// What happens where the system cannot put up all walls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strictness {
    /// The process does not go on without them.
    #[default]
    Enforce,
    /// It goes on with those that can be put up.
    BestEffort,
}

/// The walls that stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Walls {
    /// No file and no address can be reached.
    pub(crate) landlock: bool,
    /// Only the listed system calls can be made.
    pub(crate) seccomp: bool,
}

impl Walls {
    /// Whether all of them stand.
    pub(crate) fn are_complete(self) -> bool {
        self.landlock && self.seccomp
    }
}

//! Every limit of a session and of a connection, as a setting with its default.
//!
//! One place, so that an operator sees them all, and so that no queue, table or buffer is without one. The defaults
//! are those of `docs/protocol.md`; each has a test at it and one past it.

mod check;
pub mod machine;
mod setting;

use std::time::Duration;

pub(crate) use check::MEMORY_RESERVE_BYTES;
pub use check::{
    CALLS_BYTES_MIN, CLIENT_CALLS_OPEN_MAX, DURATION_MAX, DURATION_MS_MAX, MEMORY_BYTES_MAX,
    MEMORY_BYTES_MIN, MEMORY_TOTAL_BYTES_MIN, MESSAGE_BYTES_MIN, RESULT_BYTES_MIN, STACK_BYTES_MAX,
    STACK_BYTES_MIN, TEXT_BYTES_MAX, VALUE_DEPTH_MAX,
};
use serde::{Deserialize, Serialize};
pub(crate) use setting::SettingCheck;
pub use setting::{SettingProblem, SettingsError};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr,)*) => {
        /// The limits of a session and its connection.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "server", derive(schemars::JsonSchema))]
        #[serde(default, deny_unknown_fields)]
        pub struct Limits { $($(#[$doc])* pub $name: $type,)* }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }
    };
}

limits! {
    /// Longest message, both ways. A longer one closes the connection with 1009.
    message_bytes_max: usize = 16 << 20,
    /// Largest value of an eval or of a call, as JSON. Past it: `ResultTooLarge`.
    result_bytes_max: usize = 8 << 20,
    /// Evals that wait behind the running one. Past it: `QueueFull`.
    queued_evals_max: usize = 256,
    /// Console output kept for one eval; the rest is counted in `consoleDropped`.
    console_bytes_max: usize = 1 << 20,
    /// Nesting of a value, both ways. Past it: `Unserializable` going out, `InvalidParams` coming in.
    value_depth_max: usize = 100,
    /// CPU time of one eval, in milliseconds. Past it: `Timeout`.
    cpu_ms_max: u64 = 5_000,
    /// Time of one eval by the clock, in milliseconds. Past it: `Timeout`.
    wall_ms_max: u64 = 60_000,
    /// JavaScript heap of a session. Past it: `MemoryLimit`.
    memory_bytes_max: usize = 64 << 20,
    /// What the schemas of a client may take compiled, for one connection: those of its bindings, and those that function
    /// references bring. Past it: `InvalidParams` with the path, for a reference in an answer `InvalidOutput`.
    /// A binding with ten properties takes some 15 KiB, so a thousand of them fit.
    schema_bytes_max: usize = 16 << 20,
    /// JavaScript stack of a session. Past it: `StackOverflow`.
    stack_bytes_max: usize = 512 << 10,
    /// Timers a session may have pending. Past it `setTimeout` throws a `RangeError`.
    timers_max: usize = 10_000,
    /// Live function references, each way. Past it: `TooManyRefs`.
    references_max: usize = 10_000,
    /// Binding calls of one eval. Past it: `TooManyCalls`.
    calls_per_eval_max: u64 = 1_000,
    /// Whether a floating promise may call bindings after its eval is over. If not, such a call is `Cancelled`.
    floating_calls: bool = true,
    /// Invokes inside invokes. Past it: `TooDeep`.
    invoke_depth_max: u32 = 32,
    /// Requests of the client that wait for their answer, evals included. Past it: `Busy`.
    requests_open_max: usize = 1_024,
    /// Bytes of requests that a connection may have in flight, from frame to answer, and as many of answers to calls.
    /// Four of the longest messages: enough to keep a session busy, little enough that a hundred such connections fit
    /// into memory. Past it the socket is not read; while the client has calls to answer it is read, and further
    /// requests are `Busy`.
    connection_bytes_max: usize = 64 << 20,
    /// Bytes that binding calls of a session may hold while they wait for their answer, as values in memory: a number
    /// takes some hundred of them, text its length. As much as the heap may have by default, because it is a copy of
    /// what is there. Past it a call fails with `TooManyCalls`, or with `ResultTooLarge` if it alone is too much.
    calls_bytes_max: usize = 64 << 20,
    /// JavaScript heaps of all sessions together. New sessions past it are `Busy`; a script that grows past it gets
    /// `MemoryLimit`. By default half of the memory of the machine or container: the other half is for messages, values
    /// on their way, and the rest of the program.
    #[cfg_attr(feature = "server", schemars(extend("x-default" = "half of the memory", "x-example" = 4_294_967_296_u64)))]
    memory_total_bytes_max: usize = machine::memory_bytes() / 2,
    /// Outcomes of keyed evals that a session remembers.
    keyed_outcomes_max: usize = 256,
    /// Bytes that these outcomes may take together.
    keyed_bytes_max: usize = 8 << 20,
    /// CPU time for jobs and timers left over when no eval runs, in milliseconds per minute.
    background_cpu_ms_per_minute: u64 = 1_000,
    /// Time a binding call may take unless its declaration says otherwise, in milliseconds. Past it: `Timeout`.
    binding_ms_max: u64 = 30_000,
    /// Longest time that a call to a binding of the client may take, in milliseconds, whatever its declaration
    /// (`limits.timeoutMs`) or its eval (`timeoutMs`) asks for: ten minutes, as long as a session waits for its client.
    /// Past it: `Timeout`.
    client_call_ms_max: u64 = 600_000,
    /// Time that the client's `approve` may take, in milliseconds: a person decides, so minutes and not seconds.
    /// Past it the call that needed approval fails with `PermissionDenied`.
    approve_ms_max: u64 = 600_000,
    /// Calls to the client that wait for its answer, and as many console lines: room for every call of an eval.
    /// Past it they wait in the session until the client answers others. At most 8 192.
    client_calls_open_max: usize = 1_024,
    /// How long a call to a client binding waits for the client to come back, in milliseconds.
    /// With 0 such a call fails with `PeerGone` immediately.
    client_grace_ms: u64 = 0,
}

impl Limits {
    /// [`Self::cpu_ms_max`] as a duration.
    pub fn cpu_max(&self) -> Duration {
        Duration::from_millis(self.cpu_ms_max)
    }

    /// [`Self::wall_ms_max`] as a duration.
    pub fn wall_max(&self) -> Duration {
        Duration::from_millis(self.wall_ms_max)
    }
}

//! QuickJS: sessions, their JavaScript contexts, and the shards on which they run.
//!
//! The only place that names `rquickjs`; no JavaScript value leaves it.
//!
//! # Roles
//!
//! Client, script and handlers call each other and pass each other functions. Each role that one of them plays in that has a
//! type of its own:
//!
//! | type | says |
//! |---|---|
//! | `ChargedTo` | which eval or invocation CPU time, calls, timers and console lines count for; `Background` when it is over |
//! | `CallRequest` | a call that the script makes, before it is answered |
//! | `CallTarget` | where such a call goes: a binding of the server, one of the client, or an imported function |
//! | `Waiter` | what waits for the client's answer: the script, a handler, or nothing |
//! | `InvokedBy` | who called a binding or a function of the script from outside: the client or a handler |
//! | `Requester` | the request of a connection that an answer goes to |
//! | `ValueSource` | whose names `$fn` contains in a value that comes in |
//! | `RefHolder` | who can call and release an exported function: the client or a handler |
//! | `Callable` | what an exported function is: one of the script, of a handler, or of the client itself |
//! | [`FnRef`](crate::protocol::fn_ref::FnRef) | the name of a function that crossed: `f7` of the script, `h3` of a handler, `2:c1` of a client |

mod build;
mod clock;
mod context_pool;
mod diagnosis;
mod driver;
mod engine;
mod fair;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod guest;
mod heap;
mod hibernation;
mod host;
mod meter;
mod poll_counter;
mod port;
mod prelude;
mod raw;
mod script;
pub(crate) mod shard;
mod slice;
mod slices;
mod source;
mod stack;
mod stored;
mod thrown;
mod total;
mod value;

pub(crate) use build::image_build;
pub(crate) use driver::{Driver, DriverParts, Fork, SessionStart};
pub(crate) use heap::release_freed_memory;
pub(crate) use hibernation::{HibernateWhen, Hibernation, HibernationSettings};
pub(crate) use port::{ForkAdmission, Port};
pub(crate) use stored::{RestoredSession, hold_slots, new_base, release_slots};
pub(crate) use total::Claim;
pub(crate) use total::MemoryTotal;

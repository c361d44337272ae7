//! QuickJS: sessions, their JavaScript contexts, and the shards on which they run.
//!
//! The only place that names `rquickjs`; no JavaScript value leaves it.

mod context_pool;
mod engine;
mod fair;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod guest;
mod heap;
mod host;
mod meter;
mod poll_counter;
mod prelude;
mod raw;
mod script;
mod session;
pub mod shard;
mod slice;
mod slices;
mod source;
mod stack;
mod thrown;
mod total;
mod value;

pub(crate) use heap::release_freed_memory;
pub(crate) use session::{
    Attachment, EventReceiver, Inbox, Session, SessionParts, control_declarations, event_channel,
};
pub use session::{ClientBinding, SessionHandle, SessionInfo};
pub(crate) use total::Claim;
pub use total::MemoryTotal;

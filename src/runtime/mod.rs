//! QuickJS: sessions, their JavaScript worlds, and the shards on which they run.
//!
//! The only place that names `rquickjs`; no JavaScript value leaves it.

mod clock;
mod context_pool;
mod driver;
mod engine;
mod fair;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod guest;
mod heap;
mod host;
mod meter;
mod poll_counter;
mod port;
mod prelude;
mod raw;
mod script;
pub mod shard;
mod slice;
mod slices;
mod source;
mod stack;
mod thrown;
mod total;
mod value;

pub(crate) use driver::{Driver, DriverParts};
pub(crate) use heap::give_back;
pub(crate) use port::Port;
pub(crate) use total::Claim;
pub use total::MemoryTotal;

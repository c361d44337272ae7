//! QuickJS: sessions, their JavaScript worlds, and the shards on which they run.
//!
//! The only place that names `rquickjs`; no JavaScript value leaves it.

mod engine;
mod guest;
mod host;
mod meter;
mod prelude;
mod session;
mod slice;
mod source;
mod stack;
mod thrown;
mod value;

pub use session::{ClientBinding, SessionHandle, SessionInfo};

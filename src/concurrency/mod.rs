//! Building blocks of tasks and threads that every layer may use: how long to wait between
//! attempts, and channels that bound the memory they hold.

mod backoff;
mod byte_channel;

pub use backoff::{Backoff, random_fraction};
pub use byte_channel::{ByteReceiver, ByteSendError, ByteSender, byte_channel};

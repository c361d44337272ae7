//! Building blocks of tasks and threads that every layer may use: how long to wait between
//! attempts, channels that bound the memory they hold, and threads that own a resource.

mod backoff;
mod byte_channel;
mod job_thread;

pub(crate) use backoff::{Backoff, random_fraction};
pub(crate) use byte_channel::{ByteReceiver, ByteSender, byte_channel};
pub(crate) use job_thread::{JobError, JobThread, ResourceJob, ThreadStopped, Worker};

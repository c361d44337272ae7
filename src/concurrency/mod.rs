//! Building blocks of tasks and threads that every layer may use: how long to wait between attempts.

mod backoff;

pub use backoff::{Backoff, random_fraction};

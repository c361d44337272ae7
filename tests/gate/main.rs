//! Who may come in, how much they may use, and what an operator sees of it, over real sockets.

mod entry;
mod harness;
mod quotas;
mod seen;
mod tls;

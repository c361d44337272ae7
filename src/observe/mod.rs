//! What an operator can see: the numbers of `/metrics` and the audit log.
//!
//! The rest of the crate reports what happened in one line each; how it is recorded is decided here. Nothing here
//! waits, and nothing here keeps script source, inputs or outputs.

pub mod audit;
pub mod log;
mod meters;

pub(crate) use meters::{
    BindingMeter, Levels, audit_record_dropped, client_called, closed, engine_leaked, eval_finished,
    log_lines_dropped, outcome_name, peer_warned, refusal_reason, refused, render, slices_ran, stray, upkeep,
};

//! What an operator can see: the numbers of `/metrics` and the audit log.
//!
//! The rest of the crate reports what happened in one line each; how it is recorded is decided here. Nothing here
//! waits, and nothing here keeps script source, inputs or outputs.

pub mod audit;
pub mod log;
mod meters;

pub(crate) use meters::{
    BindingMeter, Levels, outcome_name, record_client_call, record_close, record_dropped_audit_record,
    record_dropped_log_lines, record_eval, record_peer_warning, record_refusal, record_slices,
    record_store_failure, record_stray_message, record_wake, record_worker, refusal_reason, render_metrics,
    run_upkeep,
};

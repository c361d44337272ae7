//! The page `/metrics`: the counters of the process, and gauges of this server.

mod process;

use std::fmt::Write as _;

use super::{ServerState, ServiceState};
use crate::budget::Purpose;
use crate::observe;

/// The page, as Prometheus reads it.
pub(crate) fn page(state: &ServerState) -> String {
    let mut text = observe::render_metrics();
    gauge(&mut text, "scomp_sessions", "Live sessions, detached ones included", state.directory.len());
    let residency = state.directory.residency();
    gauge(&mut text, "scomp_sessions_resident", "Sessions whose heap is in memory", residency.resident());
    gauge(
        &mut text,
        "scomp_sessions_hibernated",
        "Idle sessions whose heap is on disk",
        residency.hibernated(),
    );
    let stored = usize::try_from(residency.stored_bytes()).unwrap_or(usize::MAX);
    gauge(&mut text, "scomp_hibernated_bytes", "Bytes that these heaps take on disk", stored);
    if let Some(bytes) = state.directory.stored_bytes() {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        gauge(&mut text, "scomp_stored_bytes", "Bytes of the images of stored sessions", bytes);
    }
    gauge(&mut text, "scomp_connections", "Open connections", state.connections.open());
    let stuck = state.shards.stuck();
    gauge(&mut text, "scomp_stuck_shards", "Retired shards whose threads have not ended", stuck.stuck);
    gauge(&mut text, "scomp_lost_sessions", "Sessions on these shards", stuck.sessions);
    counter(
        &mut text,
        "scomp_retired_shards_total",
        "Shards retired because they were stuck in native code",
        stuck.retired_total,
    );
    counter(
        &mut text,
        "scomp_ended_shards_total",
        "Retired shards whose threads have ended",
        stuck.ended_total,
    );
    let memory = state.directory.memory();
    gauge(&mut text, "scomp_session_memory_bytes", "Memory that JavaScript heaps have drawn", memory.drawn());
    let requests = state.budget.used(Purpose::Request);
    gauge(
        &mut text,
        "scomp_request_bytes_in_flight",
        "Bytes of requests beyond 64 KiB a connection",
        requests,
    );
    let answers = state.budget.used(Purpose::Answer);
    gauge(&mut text, "scomp_answer_bytes_in_flight", "Bytes of answers beyond 64 KiB a connection", answers);
    let services = state.services.list();
    let running = services.iter().filter(|service| service.state == ServiceState::Running).count();
    gauge(&mut text, "scomp_services", "Service scripts", services.len());
    gauge(&mut text, "scomp_services_running", "Service scripts that have started and run", running);
    write_build(&mut text);
    process::write(&mut text);
    text
}

/// Always 1; the labels say which program this is.
fn write_build(text: &mut String) {
    let name = "scomp_build_info";
    let (version, commit) =
        (env!("CARGO_PKG_VERSION"), env!("SCOMP_COMMIT_SUFFIX").trim().trim_matches(['(', ')']));
    let labels = format!("version=\"{version}\",commit=\"{commit}\"");
    let _ = write!(text, "# HELP {name} The program\n# TYPE {name} gauge\n{name}{{{labels}}} 1\n\n");
}

fn gauge(text: &mut String, name: &str, help: &str, value: usize) {
    metric(text, "gauge", name, help, value);
}

fn counter(text: &mut String, name: &str, help: &str, value: usize) {
    metric(text, "counter", name, help, value);
}

fn metric(text: &mut String, kind: &str, name: &str, help: &str, value: impl std::fmt::Display) {
    // Writing into a string cannot fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n");
}

//! Counters and histograms, in the Prometheus form.
//!
//! They belong to the process, not to a server, and to a recorder of our own, so that an embedding program's recorder
//! is left alone. What every eval touches is a handle made once: counting costs an atomic addition. Labels come from
//! fixed sets and from the names of the server's own bindings, never from a client.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use parking_lot::RwLock;
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as NameError, StrDeserializer};

use crate::rpc::{ErrorObject, Kind};

/// From a property access to an approval by a person: four steps a decade where most evals are, two above.
const SECONDS_BUCKETS: [f64; 18] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
    15.0, 60.0, 180.0, 600.0,
];

static METERS: LazyLock<Meters> = LazyLock::new(Meters::new);

struct Meters {
    recorder: PrometheusRecorder,
    evals_ok: Counter,
    eval_seconds: Histogram,
    evals_queued: Gauge,
    slices: Counter,
    references: Gauge,
    log_dropped: Counter,
    wake_seconds: Histogram,
    /// Counters with a label, by family and label.
    labelled: RwLock<HashMap<(&'static str, &'static str), Counter>>,
}

/// What is counted of one binding. Its owner keeps it, so that counting a call looks nothing up.
#[derive(Default)]
pub(crate) struct BindingMeter {
    ok: OnceLock<(Histogram, Counter)>,
}

impl BindingMeter {
    /// Counts a call of the binding of that name.
    pub(crate) fn record_call(&self, binding: &str, outcome: &'static str, took: Duration) {
        let (seconds, ok) = self.ok.get_or_init(|| {
            with_local_recorder(&METERS.recorder, || {
                (
                    metrics::histogram!("scomp_binding_duration_seconds", "binding" => binding.to_owned()),
                    binding_counter(binding, OUTCOME_OK),
                )
            })
        });
        seconds.record(took);
        if outcome == OUTCOME_OK {
            return ok.increment(1);
        }
        // Failures are rare enough for a lookup.
        with_local_recorder(&METERS.recorder, || binding_counter(binding, outcome)).increment(1);
    }
}

fn binding_counter(binding: &str, outcome: &'static str) -> Counter {
    metrics::counter!("scomp_binding_calls_total", "binding" => binding.to_owned(), "outcome" => outcome)
}

/// The outcome of what did not fail.
const OUTCOME_OK: &str = "ok";

impl Meters {
    fn new() -> Self {
        let builder = PrometheusBuilder::new();
        let matcher = Matcher::Suffix("_seconds".to_owned());
        // Refused only without buckets; then durations are shown as summaries.
        let recorder = match builder.set_buckets_for_metric(matcher, &SECONDS_BUCKETS) {
            Ok(builder) => builder.build_recorder(),
            Err(_) => PrometheusBuilder::new().build_recorder(),
        };
        with_local_recorder(&recorder, describe);
        let (evals_ok, eval_seconds, evals_queued, slices, references, log_dropped) =
            with_local_recorder(&recorder, || {
                (
                    metrics::counter!("scomp_evals_total", "outcome" => "ok"),
                    metrics::histogram!("scomp_eval_duration_seconds"),
                    metrics::gauge!("scomp_evals_queued"),
                    metrics::counter!("scomp_slices_total"),
                    metrics::gauge!("scomp_references"),
                    metrics::counter!(LOG_DROPPED),
                )
            });
        let wake_seconds =
            with_local_recorder(&recorder, || metrics::histogram!("scomp_wake_duration_seconds"));
        Self {
            recorder,
            evals_ok,
            eval_seconds,
            evals_queued,
            slices,
            references,
            log_dropped,
            wake_seconds,
            labelled: RwLock::default(),
        }
    }

    fn count(&self, family: Family, label: &'static str) {
        let key = (family.name, label);
        if let Some(counter) = self.labelled.read().get(&key) {
            return counter.increment(1);
        }
        let counter =
            with_local_recorder(&self.recorder, || metrics::counter!(family.name, family.label => label));
        counter.increment(1);
        self.labelled.write().insert(key, counter);
    }
}

/// Counters that differ by one label.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    label: &'static str,
}

const EVALS: Family = Family { name: "scomp_evals_total", label: "outcome" };
const CLIENT_CALLS: Family = Family { name: "scomp_client_calls_total", label: "outcome" };
const REFUSALS: Family = Family { name: "scomp_refusals_total", label: "reason" };
const CLOSES: Family = Family { name: "scomp_closes_total", label: "code" };
const STRAYS: Family = Family { name: "scomp_stray_messages_total", label: "kind" };
const PEER_WARNINGS: Family = Family { name: "scomp_peer_warnings_total", label: "kind" };
const AUDIT_DROPPED: Family = Family { name: "scomp_audit_dropped_total", label: "log" };
const STORE_FAILURES: Family = Family { name: "scomp_store_failures_total", label: "kind" };
const WORKERS: Family = Family { name: "scomp_workers_total", label: "event" };
const LOG_DROPPED: &str = "scomp_log_dropped_total";

fn describe() {
    metrics::describe_counter!(EVALS.name, "Evals that ended, by outcome: ok or the kind of the error");
    metrics::describe_histogram!("scomp_eval_duration_seconds", "Time from start to end of an eval");
    metrics::describe_gauge!("scomp_evals_queued", "Evals that wait for their turn");
    metrics::describe_counter!("scomp_slices_total", "Slices of JavaScript that ran");
    metrics::describe_gauge!("scomp_references", "Live function references, both ways");
    metrics::describe_histogram!("scomp_wake_duration_seconds", "Time to bring a heap back into memory");
    metrics::describe_counter!("scomp_binding_calls_total", "Calls of server bindings, by outcome");
    metrics::describe_histogram!("scomp_binding_duration_seconds", "Time of a server binding's call");
    metrics::describe_counter!(REFUSALS.name, "Connections, sessions and requests that were refused");
    metrics::describe_counter!(CLIENT_CALLS.name, "Calls of the client's bindings and functions, by outcome");
    metrics::describe_counter!(CLOSES.name, "Connections that the server closed, by WebSocket close code");
    metrics::describe_counter!(STRAYS.name, "Messages that matched no request and no method");
    metrics::describe_counter!(PEER_WARNINGS.name, "Protocol violations of peers of other protocols");
    metrics::describe_counter!(
        STORE_FAILURES.name,
        "Sessions that could not be stored or read back, by kind"
    );
    metrics::describe_counter!(WORKERS.name, "Worker processes that were started, and that were lost");
    metrics::describe_counter!(LOG_DROPPED, "Log lines lost because stderr was not read in time");
    metrics::describe_counter!(AUDIT_DROPPED.name, "Audit records lost because the disk was too slow");
}

/// Counts a protocol violation of a peer; `kind` begins with the protocol's name.
pub(crate) fn record_peer_warning(kind: &'static str) {
    METERS.count(PEER_WARNINGS, kind);
}

/// Counts an eval that ended; `eval` is its number in its session.
pub(crate) fn record_eval(eval: u64, error: Option<&ErrorObject>, took: Duration) {
    tracing::debug!(eval, outcome = outcome_name(error), ?took, "an eval ended");
    METERS.eval_seconds.record(took);
    match error {
        None => METERS.evals_ok.increment(1),
        Some(error) => METERS.count(EVALS, outcome_name(Some(error))),
    }
}

/// Counts a session that could not be stored or read back.
pub(crate) fn record_store_failure(kind: &'static str) {
    METERS.count(STORE_FAILURES, kind);
}

/// Counts slices.
pub(crate) fn record_slices(count: u32) {
    METERS.slices.increment(u64::from(count));
}

/// Counts a call to the client. Its name is chosen by the client and therefore not a label.
pub(crate) fn record_client_call(error: Option<&ErrorObject>) {
    METERS.count(CLIENT_CALLS, outcome_name(error));
}

/// Counts a connection that the server closed.
pub(crate) fn record_close(code: u16) {
    let code = match code {
        1000 => "1000",
        1001 => "1001",
        1002 => "1002",
        1003 => "1003",
        1007 => "1007",
        1008 => "1008",
        1009 => "1009",
        1011 => "1011",
        1013 => "1013",
        4001 => "4001",
        _ => "other",
    };
    METERS.count(CLOSES, code);
}

/// Counts a refusal.
pub(crate) fn record_refusal(reason: &'static str) {
    METERS.count(REFUSALS, reason);
}

/// The label for a refusal that a session reports: one of a fixed set, `other` for any other reason.
pub(crate) fn refusal_reason(reason: &str) -> &'static str {
    match reason {
        "queue-full" => "queue-full",
        "sessions" => "sessions",
        "queuedEvals" => "queuedEvals",
        "cpu" => "cpu",
        "memory" => "memory",
        "messages" => "messages",
        _ => "other",
    }
}

/// Counts a message that matched nothing.
pub(crate) fn record_stray_message(kind: &'static str) {
    METERS.count(STRAYS, kind);
}

/// Counts what happens to worker processes: `started`, `lost`.
pub(crate) fn record_worker(event: &'static str) {
    METERS.count(WORKERS, event);
}

/// Counts log lines that were dropped.
pub(crate) fn record_dropped_log_lines(count: u64) {
    METERS.log_dropped.increment(count);
}

/// Counts an audit record that was dropped from the log of that name.
pub(crate) fn record_dropped_audit_record(log: &'static str) {
    METERS.count(AUDIT_DROPPED, log);
}

/// The outcome's name in labels and records: `ok`, or a known kind; any kind that a handler made up is `other`.
pub(crate) fn outcome_name(error: Option<&ErrorObject>) -> &'static str {
    let Some(error) = error else { return "ok" };
    let Some(kind) = error.kind() else { return "other" };
    let name: StrDeserializer<'_, NameError> = kind.into_deserializer();
    Kind::deserialize(name).map_or("other", Kind::name)
}

/// One session's part of the numbers of references and of queued evals, until dropped.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    references: u32,
    evals_queued: u32,
}

impl Levels {
    /// Sets the session's part.
    pub(crate) fn set(&mut self, references: usize, evals_queued: usize) {
        move_gauge(&METERS.references, &mut self.references, references);
        move_gauge(&METERS.evals_queued, &mut self.evals_queued, evals_queued);
    }
}

impl Drop for Levels {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

fn move_gauge(gauge: &Gauge, before: &mut u32, now: usize) {
    let now = u32::try_from(now).unwrap_or(u32::MAX);
    if now != *before {
        gauge.increment(f64::from(now) - f64::from(*before));
        *before = now;
    }
}

/// Counts a session whose heap came back into memory.
pub(crate) fn record_wake(took: Duration) {
    METERS.wake_seconds.record(took);
}

/// All metrics, in the text format of Prometheus.
pub(crate) fn render_metrics() -> String {
    METERS.recorder.handle().render()
}

/// Folds what was recorded into the histograms; without it they would keep every single duration until the next scrape.
pub(crate) fn run_upkeep() {
    METERS.recorder.handle().run_upkeep();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_rendered_with_their_labels() {
        record_eval(1, Some(&ErrorObject::new(Kind::Deadlock, "x")), Duration::from_micros(80));
        let meter = BindingMeter::default();
        meter.record_call("meter.test", "ok", Duration::from_millis(2));
        meter.record_call("meter.test", "Timeout", Duration::from_millis(2));
        record_refusal("meter-test");
        let text = render_metrics();
        for line in [
            "scomp_evals_total{outcome=\"Deadlock\"} 1",
            "scomp_binding_calls_total{binding=\"meter.test\",outcome=\"ok\"} 1",
            "scomp_binding_calls_total{binding=\"meter.test\",outcome=\"Timeout\"} 1",
            "scomp_binding_duration_seconds_bucket{binding=\"meter.test\",le=\"0.0025\"} 2",
            "scomp_refusals_total{reason=\"meter-test\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn kind_made_up_by_a_handler_is_labelled_other() {
        let error = ErrorObject::new(Kind::BindingError, "x").with("kind", "Zzz-17");
        assert_eq!(outcome_name(Some(&error)), "other");
        assert_eq!(outcome_name(Some(&ErrorObject::new(Kind::Timeout, "x"))), "Timeout");
        assert_eq!(outcome_name(None), "ok");
    }
}

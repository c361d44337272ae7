//! Counters and histograms, in the Prometheus form.
//!
//! They belong to the process, not to a server, and to a recorder of our own, so that an embedding program's recorder
//! is left alone. What every eval touches is a handle made once: counting costs an atomic addition. Labels come from
//! fixed sets and from the names of the server's own bindings, never from a client.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use parking_lot::RwLock;
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as NameError, StrDeserializer};

use crate::rpc::{ErrorObject, Kind};

/// From a property access to the longest eval: four steps a decade where most evals are, two above.
const SECONDS_BUCKETS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
    15.0, 60.0,
];

static METERS: LazyLock<Meters> = LazyLock::new(Meters::new);

struct Meters {
    recorder: PrometheusRecorder,
    evals_ok: Counter,
    eval_seconds: Histogram,
    evals_queued: Gauge,
    slices: Counter,
    references: Gauge,
    /// Counters with labels, by family, first and second label.
    labelled: RwLock<HashMap<(&'static str, String, &'static str), Counter>>,
    binding_seconds: RwLock<HashMap<String, Histogram>>,
}

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
        let (evals_ok, eval_seconds, evals_queued, slices, references) =
            with_local_recorder(&recorder, || {
                (
                    metrics::counter!("scomp_evals_total", "outcome" => "ok"),
                    metrics::histogram!("scomp_eval_duration_seconds"),
                    metrics::gauge!("scomp_evals_queued"),
                    metrics::counter!("scomp_slices_total"),
                    metrics::gauge!("scomp_references"),
                )
            });
        Self {
            recorder,
            evals_ok,
            eval_seconds,
            evals_queued,
            slices,
            references,
            labelled: RwLock::default(),
            binding_seconds: RwLock::default(),
        }
    }

    fn count(&self, family: Family, first: &str, second: &'static str) {
        let key = (family.name, first.to_owned(), second);
        if let Some(counter) = self.labelled.read().get(&key) {
            return counter.increment(1);
        }
        let mut labels = vec![metrics::Label::new(family.first, key.1.clone())];
        labels.extend(
            family
                .second
                .map(|name| metrics::Label::from_static_parts(name, second)),
        );
        let counter = with_local_recorder(&self.recorder, || metrics::counter!(family.name, labels));
        counter.increment(1);
        self.labelled.write().insert(key, counter);
    }

    fn time_binding(&self, binding: &str, took: Duration) {
        if let Some(histogram) = self.binding_seconds.read().get(binding) {
            return histogram.record(took);
        }
        let name = binding.to_owned();
        let histogram = with_local_recorder(
            &self.recorder,
            || metrics::histogram!("scomp_binding_duration_seconds", "binding" => name.clone()),
        );
        histogram.record(took);
        self.binding_seconds.write().insert(name, histogram);
    }
}

/// A counter with one or two labels.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    first: &'static str,
    second: Option<&'static str>,
}

const EVALS: Family = Family {
    name: "scomp_evals_total",
    first: "outcome",
    second: None,
};
const BINDING_CALLS: Family = Family {
    name: "scomp_binding_calls_total",
    first: "binding",
    second: Some("outcome"),
};
const REFUSALS: Family = Family {
    name: "scomp_refusals_total",
    first: "reason",
    second: None,
};
const STRAYS: Family = Family {
    name: "scomp_stray_messages_total",
    first: "kind",
    second: None,
};
const AUDIT_DROPPED: &str = "scomp_audit_dropped_total";

fn describe() {
    metrics::describe_counter!(
        EVALS.name,
        "Evals that ended, by outcome: ok or the kind of the error"
    );
    metrics::describe_histogram!("scomp_eval_duration_seconds", "Time from start to end of an eval");
    metrics::describe_gauge!("scomp_evals_queued", "Evals that wait for their turn");
    metrics::describe_counter!("scomp_slices_total", "Stretches of JavaScript that ran");
    metrics::describe_gauge!("scomp_references", "Live function references, both ways");
    metrics::describe_counter!(BINDING_CALLS.name, "Calls of server bindings, by outcome");
    metrics::describe_histogram!(
        "scomp_binding_duration_seconds",
        "Time of a server binding's call"
    );
    metrics::describe_counter!(
        REFUSALS.name,
        "Connections, sessions and requests that were refused"
    );
    metrics::describe_counter!(STRAYS.name, "Messages that meant nothing to us");
    metrics::describe_counter!(AUDIT_DROPPED, "Audit records lost because the disk was too slow");
}

/// The eval of that number in its session ended.
pub(crate) fn eval_finished(eval: u64, error: Option<&ErrorObject>, took: Duration) {
    tracing::debug!(eval, outcome = outcome_name(error), ?took, "an eval ended");
    METERS.eval_seconds.record(took);
    match error {
        None => METERS.evals_ok.increment(1),
        Some(error) => METERS.count(EVALS, outcome_name(Some(error)), ""),
    }
}

/// A stretch of JavaScript ran without interruption.
pub(crate) fn slice_ran() {
    METERS.slices.increment(1);
}

/// A server binding was called.
pub(crate) fn binding_called(binding: &str, outcome: &'static str, took: Duration) {
    METERS.count(BINDING_CALLS, binding, outcome);
    METERS.time_binding(binding, took);
}

/// Something was refused.
pub(crate) fn refused(reason: &'static str) {
    METERS.count(REFUSALS, reason, "");
}

/// A message came that means nothing.
pub(crate) fn stray(kind: &'static str) {
    METERS.count(STRAYS, kind, "");
}

/// An audit record was lost.
pub(crate) fn audit_record_dropped() {
    with_local_recorder(&METERS.recorder, || metrics::counter!(AUDIT_DROPPED).increment(1));
}

/// The outcome's name in labels and records: `ok`, or a kind of ours; what a handler made up is `other`.
pub(crate) fn outcome_name(error: Option<&ErrorObject>) -> &'static str {
    let Some(error) = error else { return "ok" };
    let Some(kind) = error.kind() else { return "other" };
    let name: StrDeserializer<'_, NameError> = kind.into_deserializer();
    Kind::deserialize(name).map_or("other", Kind::name)
}

/// One eval that waits, as long as it lives.
#[derive(Debug)]
pub(crate) struct Waiting(());

impl Waiting {
    pub(crate) fn new() -> Self {
        METERS.evals_queued.increment(1.0);
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        METERS.evals_queued.decrement(1.0);
    }
}

/// One session's part in the number of references.
#[derive(Debug, Default)]
pub(crate) struct Level(u32);

impl Level {
    /// It is that much now.
    pub(crate) fn set(&mut self, now: usize) {
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        if now != self.0 {
            METERS.references.increment(f64::from(now) - f64::from(self.0));
            self.0 = now;
        }
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// All of it, as Prometheus reads it.
pub(crate) fn render() -> String {
    METERS.recorder.handle().render()
}

/// Folds what was recorded into the histograms; without it they would keep every single duration until somebody asks.
pub(crate) fn upkeep() {
    METERS.recorder.handle().run_upkeep();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_show_with_their_labels() {
        eval_finished(
            1,
            Some(&ErrorObject::new(Kind::Deadlock, "x")),
            Duration::from_micros(80),
        );
        binding_called("meter.test", "ok", Duration::from_millis(2));
        binding_called("meter.test", "Timeout", Duration::from_millis(2));
        refused("meter-test");
        let text = render();
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
    fn a_kind_that_a_handler_made_up_is_no_label() {
        let error = ErrorObject::new(Kind::BindingError, "x").with("kind", "Zzz-17");
        assert_eq!(outcome_name(Some(&error)), "other");
        assert_eq!(
            outcome_name(Some(&ErrorObject::new(Kind::Timeout, "x"))),
            "Timeout"
        );
        assert_eq!(outcome_name(None), "ok");
    }
}

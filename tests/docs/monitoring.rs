//! The dashboard and the alerts ask only for metrics that the server has.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::root;

/// Names of metrics in a text: words that begin with one of the prefixes.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| word.starts_with("scomp_") || word.starts_with("process_");
    let base = |word: &str| {
        let suffixes = ["_bucket", "_sum", "_count"];
        suffixes.iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word).to_owned()
    };
    words.filter(is_metric).map(base).collect()
}

/// The names of metrics that stand in quotes in the code.
fn existing() -> BTreeSet<String> {
    let files = ["src/observe/meters.rs", "src/server/metrics.rs", "src/server/metrics/process.rs"];
    let quoted = files.iter().flat_map(|file| {
        let text = fs::read_to_string(root().join(file)).unwrap();
        text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    });
    quoted.filter(|word| names(word).contains(word)).collect()
}

#[test]
fn dashboard_asks_for_metrics_that_exist() {
    let text = fs::read_to_string(root().join("deploy/monitoring/grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let (existing, mut asked) = (existing(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let found = names(target["expr"].as_str().unwrap());
            assert!(!found.is_empty(), "{panel} asks for nothing");
            asked.extend(found);
        }
    }
    let unknown: Vec<_> = asked.difference(&existing).collect();
    assert!(asked.len() > 15 && unknown.is_empty(), "{unknown:?} are not metrics of the server");
}

#[test]
fn alerts_ask_for_metrics_that_exist() {
    let text = fs::read_to_string(root().join("deploy/monitoring/alerts.yaml")).unwrap();
    let expressions: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    let asked: BTreeSet<String> = expressions.iter().flat_map(|expression| names(expression)).collect();
    let existing = existing();
    let unknown: Vec<_> = asked.difference(&existing).collect();
    assert!(expressions.len() >= 6 && unknown.is_empty(), "{unknown:?} are not metrics of the server");
}

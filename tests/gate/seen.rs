//! What an operator sees: metrics and the audit log.

use std::path::Path;
use std::time::Duration;

use scomp::binding::{Policy, Roles};
use scomp::observe::audit::Audit;
use scomp::quota::Quotas;
use scomp::server::Gate;
use scomp::server::settings::{AuthSettings, OriginSettings, TokenSettings};
use serde_json::{Value, json};

use crate::harness::{UPGRADE, builder, connect, get, start, status};

const HOST: &str = "Host: localhost\r\n";

fn number(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not in\n{page}")).parse().unwrap()
}

#[tokio::test]
async fn metrics_count_what_happened_and_name_no_session() {
    let token = TokenSettings { roles: Roles::all(), ..TokenSettings::of_token("ann", "s3cret") };
    let auth = AuthSettings { tokens: vec![token], file: None };
    let gate = Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap();
    let (_server, address) = start(builder().gate(gate)).await;
    let client = connect(address, "s3cret").await.unwrap();
    assert_eq!(client.eval("await gate.echo({a: 1}); 7").await.unwrap().value, 7);
    client.eval("throw new Error('no')").await.unwrap_err();
    assert_eq!(status(&get(address, "/metrics", HOST).await), "401");
    let page = get(address, "/metrics", &format!("{HOST}Authorization: Bearer s3cret\r\n")).await;
    assert_eq!(status(&page), "200");
    // Other tests count in the same process, so these are at least what this one did.
    for series in [
        "scomp_evals_total{outcome=\"ok\"}",
        "scomp_evals_total{outcome=\"EvalError\"}",
        "scomp_eval_duration_seconds_count",
        "scomp_slices_total",
        "scomp_binding_calls_total{binding=\"gate.echo\",outcome=\"ok\"}",
        "scomp_binding_duration_seconds_count{binding=\"gate.echo\"}",
        "scomp_refusals_total{reason=\"no-token\"}",
        "scomp_memory_bytes",
    ] {
        assert!(number(&page, series) >= 1.0, "{series}");
    }
    assert_eq!(number(&page, "scomp_sessions"), 1.0);
    assert_eq!(number(&page, "scomp_stuck_shards"), 0.0);
    assert!(number(&page, "scomp_connections") >= 1.0);
    assert!(!page.contains("sess_"), "{page}");
}

#[tokio::test]
async fn audit_log_says_who_called_what_and_not_with_what() {
    let path = std::env::temp_dir().join(format!("scomp-gate-audit-{}.jsonl", std::process::id()));
    let policy = Policy { deny: ["gate.send".to_owned()].into(), ..Policy::default() };
    let token = TokenSettings { policy, ..TokenSettings::of_token("ann", "s3cret") };
    let auth = AuthSettings { tokens: vec![token], file: None };
    let gate = Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap();
    let audit = Audit::open(&path, 1 << 20, 1).unwrap();
    let (server, address) = start(builder().gate(gate).audit(audit)).await;
    get(address, "/", &format!("{HOST}{UPGRADE}Authorization: Bearer guess\r\n")).await;
    let client = connect(address, "s3cret").await.unwrap();
    let id = client.session().id;
    client.eval("await gate.echo({note: 'confidential'})").await.unwrap();
    client.eval("await gate.send({note: 'confidential'})").await.unwrap_err();
    server.stop(Duration::ZERO).await;
    let lines = records(&path);
    let call = |binding: &str, effect: &str, decision: &str, outcome: &str| {
        json!({"event": "call", "principal": "ann", "session": id, "binding": binding, "effects": [effect],
            "decision": decision, "outcome": outcome})
    };
    let expected = [
        json!({"event": "sessionOpened", "principal": "ann", "session": id}),
        call("gate.echo", "read", "allow", "ok"),
        call("gate.send", "external", "deny", "PermissionDenied"),
        json!({"event": "sessionClosed", "principal": "ann", "session": id}),
    ];
    assert_eq!(lines, expected);
    let beside = path.with_extension("jsonl.unauthenticated");
    assert_eq!(records(&beside), [json!({"event": "refused", "reason": "wrong-token", "count": 1})]);
}

/// What an audit log has, without times; the file is gone afterwards.
fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(!text.contains("confidential"));
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        let fields = line.as_object_mut().unwrap();
        assert!(fields.remove("at").is_some());
        fields.remove("durationMs");
    }
    lines
}

#[tokio::test]
async fn refused_requests_do_not_push_out_records_of_principals() {
    const REFUSED: usize = 300;
    let path = std::env::temp_dir().join(format!("scomp-gate-flood-{}.jsonl", std::process::id()));
    let auth = AuthSettings { tokens: vec![TokenSettings::of_token("ann", "s3cret")], file: None };
    let gate = Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap();
    // Room for some records and no file set aside: a refusal more would cost a record.
    let audit = Audit::open(&path, 1_000, 0).unwrap();
    let (server, address) = start(builder().gate(gate).audit(audit)).await;
    let client = connect(address, "s3cret").await.unwrap();
    let id = client.session().id;
    for _ in 0..REFUSED {
        assert_eq!(status(&get(address, "/metrics", HOST).await), "401");
    }
    server.stop(Duration::ZERO).await;
    let opened = json!({"event": "sessionOpened", "principal": "ann", "session": id});
    let closed = json!({"event": "sessionClosed", "principal": "ann", "session": id});
    assert_eq!(records(&path), [opened, closed]);
    // Each is counted, in a few records.
    let refused = records(&path.with_extension("jsonl.unauthenticated"));
    let count: u64 = refused.iter().map(|record| record["count"].as_u64().unwrap()).sum();
    assert_eq!(count, u64::try_from(REFUSED).unwrap());
    assert!(refused.len() < REFUSED / 10, "{}", refused.len());
}

#[tokio::test]
async fn refused_roles_do_not_push_out_records_of_principals() {
    const REFUSED: usize = 300;
    let path = std::env::temp_dir().join(format!("scomp-gate-roles-{}.jsonl", std::process::id()));
    let tokens = vec![TokenSettings::of_token("ann", "s3cret"), TokenSettings::of_token("eve", "other")];
    let auth = AuthSettings { tokens, file: None };
    let gate = Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap();
    // Room for some tens of records and no file set aside.
    let audit = Audit::open(&path, 8_000, 0).unwrap();
    let (server, address) = start(builder().gate(gate).audit(audit)).await;
    let client = connect(address, "s3cret").await.unwrap();
    let id = client.session().id;
    for _ in 0..REFUSED {
        let lines = format!("{HOST}Authorization: Bearer other\r\n");
        assert_eq!(status(&get(address, "/metrics", &lines).await), "403");
    }
    server.stop(Duration::ZERO).await;
    let records = records(&path);
    assert_eq!(records[0], json!({"event": "sessionOpened", "principal": "ann", "session": id}));
    let refused: Vec<&Value> = records.iter().filter(|record| record["event"] == "roleRefused").collect();
    assert!(
        refused
            .iter()
            .all(|record| (&record["principal"], &record["role"]) == (&json!("eve"), &json!("operator")))
    );
    let count: u64 = refused.iter().map(|record| record["count"].as_u64().unwrap()).sum();
    assert_eq!(count, u64::try_from(REFUSED).unwrap());
    assert!(refused.len() < REFUSED / 10, "{}", refused.len());
}

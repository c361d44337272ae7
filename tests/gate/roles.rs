//! Roles: what spans the sessions of every principal is for operators, and each such way in is tried with and without.

use scomp::binding::{Role, Roles};
use scomp::quota::Quotas;
use scomp::server::Gate;
use scomp::server::settings::{AuthSettings, OriginSettings, TokenSettings};
use serde_json::{Value, json};

use crate::harness::{builder, connect, get, start, status};

const HOST: &str = "Host: localhost\r\n";

/// Three principals: one without a role, one that approves, one that operates. Their tokens are their names.
fn gate() -> Gate {
    let token = |name: &str, roles: &[Role]| TokenSettings {
        roles: roles.iter().copied().collect::<Roles>(),
        ..TokenSettings::of_token(name, name)
    };
    let tokens =
        vec![token("plain", &[]), token("approver", &[Role::Approver]), token("operator", &[Role::Operator])];
    let auth = AuthSettings { tokens, ..AuthSettings::default() };
    Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap()
}

fn bearer(token: &str) -> String {
    format!("{HOST}Authorization: Bearer {token}\r\n")
}

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn principals(listed: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        listed["sessions"].as_array().unwrap().iter().map(|one| one["principal"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn metrics_need_the_operator_role() {
    let (_server, address) = start(builder().gate(gate())).await;
    assert_eq!(status(&get(address, "/metrics", HOST).await), "401");
    for token in ["plain", "approver"] {
        let refused = get(address, "/metrics", &bearer(token)).await;
        assert_eq!(status(&refused), "403", "{token}");
        assert!(refused.contains("the role \"operator\" is required"), "{refused}");
        assert!(!refused.contains("scomp_sessions"), "{refused}");
    }
    let page = get(address, "/metrics", &bearer("operator")).await;
    assert_eq!(status(&page), "200");
    assert!(page.contains("scomp_refusals_total{reason=\"role\"}"), "{page}");
}

#[tokio::test]
async fn health_and_readiness_need_no_token() {
    let (_server, address) = start(builder().gate(gate())).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status(&get(address, path, HOST).await), "200", "{path}");
    }
}

#[tokio::test]
async fn session_list_of_everyone_needs_the_operator_role() {
    let (_server, address) = start(builder().gate(gate())).await;
    let _plain = connect(address, "plain").await.unwrap();
    let _operator = connect(address, "operator").await.unwrap();
    for token in ["plain", "approver"] {
        let refused = get(address, "/console/sessions?scope=all", &bearer(token)).await;
        assert_eq!(status(&refused), "403", "{token}");
        assert!(!refused.contains("sess_"), "{refused}");
    }
    let all = body(&get(address, "/console/sessions?scope=all", &bearer("operator")).await);
    assert_eq!(principals(&all), ["operator", "plain"]);
    assert_eq!(all["roles"], json!(["operator"]));
}

#[tokio::test]
async fn session_list_without_a_scope_is_the_principals_own() {
    let (_server, address) = start(builder().gate(gate())).await;
    let _plain = connect(address, "plain").await.unwrap();
    let _operator = connect(address, "operator").await.unwrap();
    for (token, roles) in [("plain", json!([])), ("operator", json!(["operator"]))] {
        for path in ["/console/sessions", "/console/sessions?scope=own"] {
            let own = body(&get(address, path, &bearer(token)).await);
            assert_eq!(principals(&own), [token]);
            assert_eq!((&own["principal"], &own["roles"]), (&json!(token), &roles));
        }
    }
}

#[tokio::test]
async fn session_list_scope_is_checked_after_the_token() {
    let (_server, address) = start(builder().gate(gate())).await;
    assert_eq!(status(&get(address, "/console/sessions?scope=none", HOST).await), "401");
    assert_eq!(status(&get(address, "/console/sessions?scope=none", &bearer("operator")).await), "400");
}

#[tokio::test]
async fn without_tokens_a_loopback_request_is_the_operators() {
    let (_server, address) = start(builder()).await;
    assert_eq!(status(&get(address, "/metrics", HOST).await), "200");
    let all = body(&get(address, "/console/sessions?scope=all", HOST).await);
    assert_eq!(all["roles"], json!(["operator", "approver"]));
    assert_eq!(status(&get(address, "/metrics", "Host: rebound.example\r\n").await), "403");
}

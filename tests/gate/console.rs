//! The web console: who gets the page, what it may do, and whose sessions it lists.

use scomp::quota::Quotas;
use serde_json::Value;

use crate::harness::{builder, connect, gate, get, start, status};

const HOST: &str = "Host: localhost\r\n";

#[tokio::test]
async fn page_needs_no_token_and_runs_only_its_own_script() {
    let (_server, address) = start(builder().gate(gate(&[("ann", "token-a")], Quotas::default(), &[]))).await;
    for (path, content_type) in [
        ("/console", "text/html"),
        ("/console/console.js", "text/javascript"),
        ("/console/console.css", "text/css"),
    ] {
        let answer = get(address, path, HOST).await;
        assert_eq!(status(&answer), "200", "{path}");
        let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        assert!(head.contains(&format!("content-type: {content_type}")), "{head}");
        let policy = head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}

#[tokio::test]
async fn principal_sees_its_own_sessions_only() {
    let tokens = [("ann", "token-a"), ("bob", "token-b")];
    let (_server, address) = start(builder().gate(gate(&tokens, Quotas::default(), &[]))).await;
    let ann = connect(address, "token-a").await.unwrap();
    let _bob = connect(address, "token-b").await.unwrap();
    ann.eval("1 + 1").await.unwrap();
    assert_eq!(status(&get(address, "/console/sessions", HOST).await), "401");
    let answer = get(address, "/console/sessions", &format!("{HOST}Authorization: Bearer token-a\r\n")).await;
    let listed: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{listed}");
    assert_eq!(sessions[0]["id"], ann.session().id);
    assert_eq!(sessions[0]["info"]["evalsDone"], 1);
    assert_eq!(sessions[0]["info"]["running"], false);
}

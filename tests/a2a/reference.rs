//! The reference client and voters of the specification, step by step.

use serde_json::{Value, json};

use crate::support::Running;
use crate::support::wire::{Arrival, Wire};
use crate::{connect_agent, gateway_folder, send};

/// Connects like the reference client: to the root path, with the subprotocol.
async fn connect_reference_client(server: &Running) -> Wire {
    let mut wire = Wire::offering(&server.url, Some("a2a-v1")).await;
    assert_eq!(wire.subprotocol.as_deref(), Some("a2a-v1"), "the reference client requires it");
    let capabilities = json!({"supportedMessageTypes": ["message", "status", "error"], "version": "1.0.0"});
    let handshake = json!({
        "type": "handshake", "content": {"action": "advertise", "capabilities": capabilities},
        "id": "msg-1-abc", "timestamp": 1_711_843_200_000_u64
    });
    send(&mut wire, handshake).await;
    let acknowledged = wire.json().await;
    assert_eq!(acknowledged["content"]["action"], "acknowledge");
    assert!(acknowledged["content"]["clientId"].is_string());
    wire
}

/// Returns the frame of `sendMessage`, which resolves only on a `message` with the same
/// correlation.
fn message_to(agent: &str, correlation_id: &str) -> Value {
    json!({
        "type": "message", "agent": agent,
        "content": {"role": "user", "content": "What is the current status of the collective?"},
        "metadata": {"requiresResponse": true, "correlationId": correlation_id},
        "id": "msg-2-def", "timestamp": 1_711_843_200_001_u64
    })
}

#[tokio::test]
async fn reference_client_gets_one_reply_per_message() {
    let folder = gateway_folder(json!({}));
    let server = Running::folder(folder.path()).await;
    let mut script = Wire::live(&server.url).await;
    script.value("await a2a.register({ name: 'steward', onMessage: () => 'all is well' }); 0").await;
    let mut client = connect_reference_client(&server).await;
    // Its ids come from a millisecond clock, so two messages may share one.
    send(&mut client, message_to("steward", "corr-1")).await;
    send(&mut client, message_to("steward", "corr-1")).await;
    for _ in 0..2 {
        let reply = client.json().await;
        assert_eq!(
            (&reply["type"], &reply["metadata"]["correlationId"]),
            (&json!("message"), &json!("corr-1"))
        );
        assert_eq!(reply["content"]["content"], "all is well");
    }
    send(&mut client, json!({"type": "disconnect", "content": {"reason": "manual"}})).await;
    assert_eq!(client.next().await, Arrival::Closed(1000), "no reply");
}

#[tokio::test]
async fn reference_voters_vote_by_message_id() {
    let folder = gateway_folder(json!({}));
    let server = Running::folder(folder.path()).await;
    let mut voters = Vec::new();
    for name in ["alpha", "beta", "charlie"] {
        voters.push((name, connect_agent(&server, name).await));
    }
    let mut client = connect_reference_client(&server).await;
    let proposal = json!({
        "type": "proposal", "from": "steward", "id": "msg-9",
        "content": {"proposal": "Implement new feature X", "reasoning": "need", "deadline": 1_711_843_200_000_u64},
        "metadata": {"requiresResponse": true, "correlationId": "prop-001"}
    });
    send(&mut client, proposal).await;
    for (name, voter) in &mut voters {
        let proposal = voter.json().await;
        let id = proposal["id"].clone();
        let vote = json!({
            "type": "vote", "from": name,
            "content": {
                "proposalId": id, "vote": if *name == "beta" { "reject" } else { "approve" },
                "reasoning": "Analysis of proposal: Implement new feature X", "confidence": 0.7
            },
            "metadata": {"correlationId": id}
        });
        send(voter, vote).await;
    }
    let decision = client.json().await;
    assert_eq!(decision["from"], "gateway");
    assert_eq!(
        decision["content"],
        json!({
            "proposalId": "prop-001", "result": "approved", "consensus": true,
            "votes": {"alpha": "approve", "beta": "reject", "charlie": "approve"}
        })
    );
    for (_, voter) in &mut voters {
        assert_eq!(voter.json().await["type"], "decision");
    }
}

#[tokio::test]
async fn audit_log_has_every_message_and_no_content() {
    let folder = gateway_folder(json!({"audit": "audit.jsonl"}));
    let server = Running::folder(folder.path()).await;
    let mut client = connect_reference_client(&server).await;
    send(&mut client, message_to("steward", "corr-1")).await;
    assert_eq!(client.json().await["content"]["code"], 3002);
    let path = folder.path().join("audit.jsonl");
    let text = loop {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains("AGENT_OFFLINE") {
            break text;
        }
        tokio::task::yield_now().await;
    };
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| &line["kind"]).collect::<Vec<_>>(), ["handshake", "message"]);
    assert_eq!((&lines[1]["agent"], &lines[1]["id"]), (&json!("steward"), &json!("msg-2-def")));
    assert!(!text.contains("collective"));
}

//! Proposals, votes and decisions over connections.

use super::*;

fn proposal(id: &str) -> Value {
    json!({
        "type": "proposal", "from": "steward", "id": format!("m-{id}"),
        "content": {"proposal": "Implement X", "deadline": 1}, "metadata": {"correlationId": id}
    })
}

fn vote(member: &str, id: &str, vote: &str) -> Value {
    json!({"type": "vote", "from": member, "content": {"proposalId": id, "vote": vote}})
}

fn with_members() -> TestGateway {
    let mut gateway = TestGateway::new(settings());
    for (id, name) in [(2, "alpha"), (3, "beta"), (4, "charlie")] {
        gateway.add_agent(id, name);
    }
    gateway.open(1);
    gateway
}

#[test]
fn decision_reaches_proposer_and_members_once() {
    let mut gateway = with_members();
    let outputs = gateway.send(1, proposal("p"));
    assert_eq!(summary(&outputs), ["2 proposal", "3 proposal", "4 proposal"]);
    let Output::Frame(_, delivered) = &outputs[0] else { panic!("{outputs:?}") };
    assert_eq!((&delivered["id"], &delivered["metadata"]["correlationId"]), (&json!("m-p"), &json!("p")));
    assert_eq!(gateway.send(2, vote("alpha", "p", "approve")), []);
    assert_eq!(gateway.send(3, vote("beta", "m-p", "reject")), [], "by the message id");
    let outputs = gateway.send(4, vote("charlie", "p", "approve"));
    assert_eq!(summary(&outputs), ["1 decision", "2 decision", "3 decision", "4 decision"]);
    let Output::Frame(_, decision) = &outputs[0] else { panic!("{outputs:?}") };
    assert_eq!(decision["content"]["result"], "approved");
    assert_eq!(decision["metadata"]["correlationId"], "p");
    assert_eq!(summary(&gateway.send(4, vote("charlie", "p", "reject"))), ["4 error 2005"]);
}

#[test]
fn deadline_decides_without_missing_votes() {
    let mut gateway = with_members();
    gateway.send(1, proposal("p"));
    gateway.send(2, vote("alpha", "p", "reject"));
    gateway.send(3, vote("beta", "p", "reject"));
    gateway.end(1);
    let outputs = gateway.advance(600);
    assert_eq!(
        summary(&outputs),
        ["2 decision", "3 decision", "4 decision"],
        "the proposer has disconnected"
    );
    let Output::Frame(_, decision) = &outputs[0] else { panic!("{outputs:?}") };
    assert_eq!(
        decision["content"],
        json!({
            "proposalId": "p", "result": "rejected", "consensus": true,
            "votes": {"alpha": "reject", "beta": "reject"}
        })
    );
}

#[test]
fn vote_of_a_non_member_or_for_another_is_refused() {
    let mut gateway = with_members();
    gateway.add_agent(5, "coder");
    gateway.send(1, proposal("p"));
    assert_eq!(summary(&gateway.send(5, vote("coder", "p", "approve"))), ["5 error 5004"], "not a member");
    assert_eq!(
        summary(&gateway.send(1, vote("alpha", "p", "approve"))),
        ["1 error 5004"],
        "the name of another connection"
    );
    assert_eq!(summary(&gateway.send(3, vote("alpha", "p", "approve"))), ["3 error 5004"]);
    gateway.end(2);
    assert_eq!(
        summary(&gateway.send(1, vote("alpha", "p", "approve"))),
        ["1 error 5004"],
        "the name is free"
    );
    let unnamed = json!({"type": "vote", "content": {"proposalId": "p", "vote": "approve"}});
    assert_eq!(summary(&gateway.send(1, unnamed.clone())), ["1 error 5004"]);
    assert_eq!(gateway.send(3, unnamed), [], "`from` is optional for a member");
    assert_eq!(summary(&gateway.send(3, vote("beta", "q", "approve"))), ["3 error 2005"]);
}

#[test]
fn proposing_member_gets_no_copy_and_may_vote() {
    let mut gateway = with_members();
    let mut frame = proposal("p");
    frame["from"] = json!("alpha");
    assert_eq!(summary(&gateway.send(2, frame)), ["3 proposal", "4 proposal"]);
    assert_eq!(gateway.send(2, vote("alpha", "p", "approve")), []);
}

#[test]
fn proposal_without_correlation_uses_its_message_id() {
    let mut gateway = with_members();
    let mut frame = proposal("p");
    frame["metadata"] = json!({});
    let outputs = gateway.send(1, frame.clone());
    let Output::Frame(_, delivered) = &outputs[0] else { panic!("{outputs:?}") };
    assert_eq!(delivered["metadata"]["correlationId"], "m-p");
    assert_eq!(summary(&gateway.send(1, frame)), ["1 error 2005"], "the id is used");
}

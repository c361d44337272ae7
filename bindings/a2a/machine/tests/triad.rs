//! Deliberation over connections.

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

fn assembled() -> World {
    let mut world = World::new(settings());
    for (id, name) in [(2, "alpha"), (3, "beta"), (4, "charlie")] {
        world.agent(id, name);
    }
    world.open(1);
    world
}

#[test]
fn proposer_and_members_hear_of_the_decision_once() {
    let mut world = assembled();
    let got = world.send(1, proposal("p"));
    assert_eq!(summary(&got), ["2 proposal", "3 proposal", "4 proposal"]);
    let Got::Frame(_, delivered) = &got[0] else { panic!("{got:?}") };
    assert_eq!((&delivered["id"], &delivered["metadata"]["correlationId"]), (&json!("m-p"), &json!("p")));
    assert_eq!(world.send(2, vote("alpha", "p", "approve")), []);
    assert_eq!(world.send(3, vote("beta", "m-p", "reject")), [], "by the message's id");
    let got = world.send(4, vote("charlie", "p", "approve"));
    assert_eq!(summary(&got), ["1 decision", "2 decision", "3 decision", "4 decision"]);
    let Got::Frame(_, decision) = &got[0] else { panic!("{got:?}") };
    assert_eq!(decision["content"]["result"], "approved");
    assert_eq!(decision["metadata"]["correlationId"], "p");
    assert_eq!(summary(&world.send(4, vote("charlie", "p", "reject"))), ["4 error 2005"]);
}

#[test]
fn the_deadline_decides_without_those_who_are_silent() {
    let mut world = assembled();
    world.send(1, proposal("p"));
    world.send(2, vote("alpha", "p", "reject"));
    world.send(3, vote("beta", "p", "reject"));
    world.end(1);
    let got = world.later(600);
    assert_eq!(summary(&got), ["2 decision", "3 decision", "4 decision"], "the proposer is gone");
    let Got::Frame(_, decision) = &got[0] else { panic!("{got:?}") };
    assert_eq!(
        decision["content"],
        json!({
            "proposalId": "p", "result": "rejected", "consensus": true,
            "votes": {"alpha": "reject", "beta": "reject"}
        })
    );
}

#[test]
fn only_members_vote_and_only_for_themselves() {
    let mut world = assembled();
    world.agent(5, "coder");
    world.send(1, proposal("p"));
    assert_eq!(summary(&world.send(5, vote("coder", "p", "approve"))), ["5 error 5004"], "no member");
    assert_eq!(
        summary(&world.send(1, vote("alpha", "p", "approve"))),
        ["1 error 5004"],
        "somebody else's name"
    );
    assert_eq!(summary(&world.send(3, vote("alpha", "p", "approve"))), ["3 error 5004"]);
    world.end(2);
    assert_eq!(
        summary(&world.send(1, vote("alpha", "p", "approve"))),
        ["1 error 5004"],
        "a name that is free"
    );
    let unnamed = json!({"type": "vote", "content": {"proposalId": "p", "vote": "approve"}});
    assert_eq!(summary(&world.send(1, unnamed.clone())), ["1 error 5004"]);
    assert_eq!(world.send(3, unnamed), [], "a member need not say who it is");
    assert_eq!(summary(&world.send(3, vote("beta", "q", "approve"))), ["3 error 2005"]);
}

#[test]
fn a_member_that_proposes_gets_no_copy_and_may_vote() {
    let mut world = assembled();
    let mut frame = proposal("p");
    frame["from"] = json!("alpha");
    assert_eq!(summary(&world.send(2, frame)), ["3 proposal", "4 proposal"]);
    assert_eq!(world.send(2, vote("alpha", "p", "approve")), []);
}

#[test]
fn a_proposal_without_a_correlation_is_called_by_its_id() {
    let mut world = assembled();
    let mut frame = proposal("p");
    frame["metadata"] = json!({});
    let got = world.send(1, frame.clone());
    let Got::Frame(_, delivered) = &got[0] else { panic!("{got:?}") };
    assert_eq!(delivered["metadata"]["correlationId"], "m-p");
    assert_eq!(summary(&world.send(1, frame)), ["1 error 2005"], "and not a second time");
}

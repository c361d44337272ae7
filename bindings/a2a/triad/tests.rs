//! Outcomes of deliberations, and refused proposals and votes.

use proptest::prelude::*;

use super::*;

const PROPOSER: ConnectionId = ConnectionId(9);

fn triad(decides_early: bool) -> Triad {
    let members = ["alpha", "beta", "charlie"].map(str::to_owned).to_vec();
    Triad::new(TriadRules { members, deliberation_ms: 600, decides_early })
}

fn proposal(id: &str, deadline_ms: Option<u64>) -> Proposal {
    Proposal { id: id.to_owned(), message_id: format!("m-{id}"), proposer: PROPOSER, deadline_ms }
}

fn error_name(result: Result<impl std::fmt::Debug, GatewayError>) -> &'static str {
    result.unwrap_err().code.name()
}

/// Returns the decision when the members vote in order.
fn decide(votes: [Vote; 3]) -> Decision {
    let mut triad = triad(false);
    triad.propose(proposal("p", None), 0).unwrap();
    assert_eq!(triad.record_vote("p", "alpha", votes[0]).unwrap(), None);
    assert_eq!(triad.record_vote("p", "beta", votes[1]).unwrap(), None);
    triad.record_vote("p", "charlie", votes[2]).unwrap().unwrap()
}

#[test]
fn every_combination_of_votes_is_decided_as_in_table() {
    use Vote::{Abstain as O, Approve as Y, Reject as N};
    let table = [
        ([Y, Y, Y], true, true),
        ([Y, Y, N], true, true),
        ([N, Y, Y], true, true),
        ([Y, Y, O], true, true),
        ([O, Y, Y], true, true),
        ([Y, N, N], false, true),
        ([N, N, N], false, true),
        ([O, N, N], false, true),
        ([Y, N, O], false, false),
        ([Y, O, O], false, false),
        ([N, O, O], false, false),
        ([O, O, O], false, false),
    ];
    for (votes, approved, consensus) in table {
        let decision = decide(votes);
        assert_eq!((decision.is_approved(), decision.is_consensus()), (approved, consensus), "{votes:?}");
    }
}

#[test]
fn decision_has_its_proposal_and_every_vote() {
    let content = decide([Vote::Approve, Vote::Approve, Vote::Abstain]).content();
    assert_eq!(
        content,
        json!({
            "proposalId": "p", "result": "approved", "consensus": true,
            "votes": {"alpha": "approve", "beta": "approve", "charlie": "abstain"}
        })
    );
}

#[test]
fn deadline_decides_by_the_votes_so_far() {
    let mut triad = triad(false);
    triad.propose(proposal("p", Some(1)), 100).unwrap();
    triad.record_vote("p", "alpha", Vote::Approve).unwrap();
    assert_eq!(triad.next_deadline_ms(), Some(700));
    assert_eq!(triad.decide_due(699), []);
    let [decision] = triad.decide_due(700).try_into().unwrap();
    assert_eq!(decision.content()["votes"], json!({"alpha": "approve"}));
    assert!(!decision.is_approved());
    assert_eq!(triad.next_deadline_ms(), None);
}

#[test]
fn future_deadline_is_limited_to_a_day() {
    let mut triad = triad(false);
    triad.propose(proposal("near", Some(150)), 100).unwrap();
    assert_eq!(triad.next_deadline_ms(), Some(150));
    triad.decide_due(150);
    triad.propose(proposal("at", Some(100 + DELIBERATION_MS_MAX)), 100).unwrap();
    assert_eq!(triad.next_deadline_ms(), Some(100 + DELIBERATION_MS_MAX));
    triad.decide_due(u64::MAX);
    triad.propose(proposal("past", Some(101 + DELIBERATION_MS_MAX)), 100).unwrap();
    assert_eq!(triad.next_deadline_ms(), Some(100 + DELIBERATION_MS_MAX));
}

#[test]
fn last_vote_of_a_member_counts_until_the_decision() {
    let mut triad = triad(false);
    triad.propose(proposal("p", None), 0).unwrap();
    triad.record_vote("p", "alpha", Vote::Reject).unwrap();
    triad.record_vote("p", "beta", Vote::Approve).unwrap();
    assert_eq!(triad.record_vote("p", "alpha", Vote::Approve).unwrap(), None);
    let decision = triad.record_vote("p", "charlie", Vote::Reject).unwrap().unwrap();
    assert!(decision.is_approved());
    assert_eq!(error_name(triad.record_vote("p", "charlie", Vote::Approve)), "INVALID_CONTENT");
}

#[test]
fn vote_may_name_the_message_id() {
    let mut triad = triad(true);
    triad.propose(proposal("p", None), 0).unwrap();
    triad.record_vote("m-p", "alpha", Vote::Reject).unwrap();
    let decision = triad.record_vote("p", "beta", Vote::Reject).unwrap().unwrap();
    assert_eq!(decision.proposal_id, "p");
}

#[test]
fn vote_of_non_member_or_on_unknown_id_is_refused() {
    let mut triad = triad(false);
    assert_eq!(error_name(triad.record_vote("p", "coder", Vote::Approve)), "PERMISSION_DENIED");
    assert_eq!(error_name(triad.record_vote("p", "alpha", Vote::Approve)), "INVALID_CONTENT");
}

#[test]
fn used_proposal_ids_are_refused() {
    let mut triad = triad(false);
    triad.propose(proposal("p", None), 0).unwrap();
    assert_eq!(error_name(triad.propose(proposal("p", None), 0)), "INVALID_CONTENT");
    assert_eq!(error_name(triad.propose(proposal("m-p", None), 0)), "INVALID_CONTENT");
    triad.decide_due(600);
    assert_eq!(error_name(triad.propose(proposal("p", None), 0)), "INVALID_CONTENT");
}

#[test]
fn early_triad_decides_at_the_second_equal_vote() {
    let mut triad = triad(true);
    triad.propose(proposal("p", None), 0).unwrap();
    triad.record_vote("p", "beta", Vote::Approve).unwrap();
    let decision = triad.record_vote("p", "alpha", Vote::Approve).unwrap().unwrap();
    assert!(decision.is_approved() && decision.votes.len() == 2);
}

#[test]
fn proposal_past_the_limit_is_refused() {
    let mut triad = triad(false);
    for number in 0..PROPOSALS_OPEN_MAX {
        triad.propose(proposal(&format!("p{number}"), None), 0).unwrap();
    }
    assert_eq!(error_name(triad.propose(proposal("late", None), 0)), "AGENT_BUSY");
    assert_eq!(triad.decide_due(600).len(), PROPOSALS_OPEN_MAX);
    triad.propose(proposal("late", None), 0).unwrap();
    assert_eq!(
        error_name(triad.propose(proposal("p0", None), 0)),
        "INVALID_CONTENT",
        "the oldest is remembered"
    );
    triad.decide_due(600);
    triad.propose(proposal("p0", None), 0).unwrap();
    assert_eq!(triad.decided.len(), PROPOSALS_DECIDED_MAX, "the oldest id was dropped");
}

proptest! {
    /// The last vote of each member decides, however often they change their votes.
    #[test]
    fn last_votes_decide(votes in proptest::collection::vec((0..3_usize, 0..3_usize), 0..20)) {
        let members = ["alpha", "beta", "charlie"];
        let kinds = [Vote::Approve, Vote::Reject, Vote::Abstain];
        let mut triad = triad(false);
        triad.propose(proposal("p", None), 0).unwrap();
        let mut last: BTreeMap<String, Vote> = BTreeMap::new();
        let mut decision = None;
        for (member, kind) in votes {
            last.insert(members[member].to_owned(), kinds[kind]);
            decision = triad.record_vote("p", members[member], kinds[kind]).unwrap();
            if decision.is_some() {
                break;
            }
        }
        let decision = decision.or_else(|| triad.decide_due(600).pop()).unwrap();
        prop_assert_eq!(&decision.votes, &last);
        let approvals = last.values().filter(|vote| **vote == Vote::Approve).count();
        prop_assert_eq!(decision.is_approved(), approvals >= 2);
    }
}

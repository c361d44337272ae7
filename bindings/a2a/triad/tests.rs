//! Every outcome of a deliberation, and what is refused.

use proptest::prelude::*;

use super::*;

const PROPOSER: ConnectionId = ConnectionId(9);

fn triad(decides_early: bool) -> Triad {
    let members = ["alpha", "beta", "charlie"].map(str::to_owned).to_vec();
    Triad::new(Rules { members, deliberation_ms: 600, decides_early })
}

fn proposal(id: &str, deadline_ms: Option<u64>) -> Proposal {
    Proposal { id: id.to_owned(), message_id: format!("m-{id}"), proposer: PROPOSER, deadline_ms }
}

fn code(refused: Result<impl std::fmt::Debug, Refusal>) -> &'static str {
    refused.unwrap_err().code.name()
}

/// The decision when the members vote in their order.
fn outcome(votes: [Vote; 3]) -> Decision {
    let mut triad = triad(false);
    triad.propose(proposal("p", None), 0).unwrap();
    assert_eq!(triad.vote("p", "alpha", votes[0]).unwrap(), None);
    assert_eq!(triad.vote("p", "beta", votes[1]).unwrap(), None);
    triad.vote("p", "charlie", votes[2]).unwrap().unwrap()
}

#[test]
fn all_votes_decide_as_the_table_says() {
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
        let decision = outcome(votes);
        assert_eq!((decision.is_approved(), decision.is_consensus()), (approved, consensus), "{votes:?}");
    }
}

#[test]
fn the_decision_names_its_proposal_and_every_vote() {
    let content = outcome([Vote::Approve, Vote::Approve, Vote::Abstain]).content();
    assert_eq!(
        content,
        json!({
            "proposalId": "p", "result": "approved", "consensus": true,
            "votes": {"alpha": "approve", "beta": "approve", "charlie": "abstain"}
        })
    );
}

#[test]
fn at_the_deadline_those_who_voted_decide() {
    let mut triad = triad(false);
    triad.propose(proposal("p", Some(1)), 100).unwrap();
    triad.vote("p", "alpha", Vote::Approve).unwrap();
    assert_eq!(triad.next_deadline_ms(), Some(700));
    assert_eq!(triad.expire(699), []);
    let [decision] = triad.expire(700).try_into().unwrap();
    assert_eq!(decision.content()["votes"], json!({"alpha": "approve"}));
    assert!(!decision.is_approved());
    assert_eq!(triad.next_deadline_ms(), None);
}

#[test]
fn a_deadline_that_is_still_to_come_counts_up_to_a_day() {
    let mut triad = triad(false);
    triad.propose(proposal("near", Some(150)), 100).unwrap();
    assert_eq!(triad.next_deadline_ms(), Some(150));
    triad.expire(150);
    triad.propose(proposal("at", Some(100 + DELIBERATION_MS_MAX)), 100).unwrap();
    assert_eq!(triad.next_deadline_ms(), Some(100 + DELIBERATION_MS_MAX));
    triad.expire(u64::MAX);
    triad.propose(proposal("past", Some(101 + DELIBERATION_MS_MAX)), 100).unwrap();
    assert_eq!(triad.next_deadline_ms(), Some(100 + DELIBERATION_MS_MAX));
}

#[test]
fn the_last_word_of_a_member_counts_until_the_decision() {
    let mut triad = triad(false);
    triad.propose(proposal("p", None), 0).unwrap();
    triad.vote("p", "alpha", Vote::Reject).unwrap();
    triad.vote("p", "beta", Vote::Approve).unwrap();
    assert_eq!(triad.vote("p", "alpha", Vote::Approve).unwrap(), None);
    let decision = triad.vote("p", "charlie", Vote::Reject).unwrap().unwrap();
    assert!(decision.is_approved());
    assert_eq!(code(triad.vote("p", "charlie", Vote::Approve)), "INVALID_CONTENT");
}

#[test]
fn a_vote_may_name_the_message_instead_of_the_proposal() {
    let mut triad = triad(true);
    triad.propose(proposal("p", None), 0).unwrap();
    triad.vote("m-p", "alpha", Vote::Reject).unwrap();
    let decision = triad.vote("p", "beta", Vote::Reject).unwrap().unwrap();
    assert_eq!(decision.proposal_id, "p");
}

#[test]
fn strangers_and_unknown_proposals_are_refused() {
    let mut triad = triad(false);
    assert_eq!(code(triad.vote("p", "coder", Vote::Approve)), "PERMISSION_DENIED");
    assert_eq!(code(triad.vote("p", "alpha", Vote::Approve)), "INVALID_CONTENT");
}

#[test]
fn an_id_is_used_once_under_both_of_its_names() {
    let mut triad = triad(false);
    triad.propose(proposal("p", None), 0).unwrap();
    assert_eq!(code(triad.propose(proposal("p", None), 0)), "INVALID_CONTENT");
    assert_eq!(code(triad.propose(proposal("m-p", None), 0)), "INVALID_CONTENT");
    triad.expire(600);
    assert_eq!(code(triad.propose(proposal("p", None), 0)), "INVALID_CONTENT");
}

#[test]
fn an_early_triad_decides_at_the_second_voice() {
    let mut triad = triad(true);
    triad.propose(proposal("p", None), 0).unwrap();
    triad.vote("p", "beta", Vote::Approve).unwrap();
    let decision = triad.vote("p", "alpha", Vote::Approve).unwrap().unwrap();
    assert!(decision.is_approved() && decision.votes.len() == 2);
}

#[test]
fn the_last_place_is_taken_and_one_more_is_refused() {
    let mut triad = triad(false);
    for number in 0..PROPOSALS_OPEN_MAX {
        triad.propose(proposal(&format!("p{number}"), None), 0).unwrap();
    }
    assert_eq!(code(triad.propose(proposal("late", None), 0)), "AGENT_BUSY");
    assert_eq!(triad.expire(600).len(), PROPOSALS_OPEN_MAX);
    triad.propose(proposal("late", None), 0).unwrap();
    assert_eq!(code(triad.propose(proposal("p0", None), 0)), "INVALID_CONTENT", "the oldest is remembered");
    triad.expire(600);
    triad.propose(proposal("p0", None), 0).unwrap();
    assert_eq!(triad.decided.len(), PROPOSALS_DECIDED_MAX, "and with one more it is not");
}

proptest! {
    /// However often the members change their minds, the last word of each is what decides.
    #[test]
    fn the_last_words_decide(votes in proptest::collection::vec((0..3_usize, 0..3_usize), 0..20)) {
        let members = ["alpha", "beta", "charlie"];
        let kinds = [Vote::Approve, Vote::Reject, Vote::Abstain];
        let mut triad = triad(false);
        triad.propose(proposal("p", None), 0).unwrap();
        let mut last: BTreeMap<String, Vote> = BTreeMap::new();
        let mut decision = None;
        for (member, kind) in votes {
            last.insert(members[member].to_owned(), kinds[kind]);
            decision = triad.vote("p", members[member], kinds[kind]).unwrap();
            if decision.is_some() {
                break;
            }
        }
        let decision = decision.or_else(|| triad.expire(600).pop()).unwrap();
        prop_assert_eq!(&decision.votes, &last);
        let approvals = last.values().filter(|vote| **vote == Vote::Approve).count();
        prop_assert_eq!(decision.is_approved(), approvals >= 2);
    }
}

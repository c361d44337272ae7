//! Proposals, the votes of the three members, and decisions.
//!
//! A proposal is decided when every member has voted or when its deadline passes; optionally as
//! soon as enough votes agree. A member may change its vote until then. Time is a parameter.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Value, json};

use super::ConnectionId;
use super::codes::{ErrorCode, GatewayError};

/// Open proposals; one more gets 3003. A triad has this many only when its members do not vote.
pub(crate) const PROPOSALS_OPEN_MAX: usize = 1024;

/// Decided proposals whose ids are remembered and refused.
pub(crate) const PROPOSALS_DECIDED_MAX: usize = 1024;

/// Longest deliberation. A longer one would block a place among the open proposals for more than a
/// day.
pub(crate) const DELIBERATION_MS_MAX: u64 = 24 * 3600 * 1000;

/// Time to deliberate unless the proposal has a deadline in the future.
pub(crate) const DELIBERATION_MS_DEFAULT: u64 = 5 * 60 * 1000;

/// Equal votes that are a consensus, for or against.
const CONSENSUS_VOTES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    Approve,
    Reject,
    Abstain,
}

impl Vote {
    /// Returns the name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Abstain => "abstain",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Approve, Self::Reject, Self::Abstain].into_iter().find(|vote| vote.name() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TriadRules {
    pub(crate) members: Vec<String>,
    pub(crate) deliberation_ms: u64,
    /// Whether to decide as soon as enough votes agree.
    pub(crate) decides_early: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// The id in decisions: its correlation, or else its message id.
    pub(crate) id: String,
    /// An alternative id for votes.
    pub(crate) message_id: String,
    pub(crate) proposer: ConnectionId,
    pub(crate) deadline_ms: Option<u64>,
}

#[derive(Debug)]
struct OpenProposal {
    message_id: String,
    proposer: ConnectionId,
    closes_ms: u64,
    votes: BTreeMap<String, Vote>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) proposal_id: String,
    pub(crate) proposer: ConnectionId,
    pub(crate) votes: BTreeMap<String, Vote>,
}

impl Decision {
    fn count(&self, vote: Vote) -> usize {
        self.votes.values().filter(|cast| **cast == vote).count()
    }

    pub(crate) fn is_approved(&self) -> bool {
        self.count(Vote::Approve) >= CONSENSUS_VOTES
    }

    /// Returns whether enough members agreed, for or against.
    pub(crate) fn is_consensus(&self) -> bool {
        self.is_approved() || self.count(Vote::Reject) >= CONSENSUS_VOTES
    }

    /// Returns the content of the `decision` frame. Members that did not vote are left out.
    pub(crate) fn content(&self) -> Value {
        let votes: serde_json::Map<_, _> =
            self.votes.iter().map(|(member, vote)| (member.clone(), json!(vote.name()))).collect();
        json!({
            "proposalId": self.proposal_id,
            "result": if self.is_approved() { "approved" } else { "rejected" },
            "votes": votes,
            "consensus": self.is_consensus(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Triad {
    rules: TriadRules,
    open: HashMap<String, OpenProposal>,
    /// The two ids of each decided proposal.
    decided: VecDeque<[String; 2]>,
}

impl Triad {
    pub(crate) fn new(rules: TriadRules) -> Self {
        Self { rules, open: HashMap::new(), decided: VecDeque::new() }
    }

    pub(crate) fn members(&self) -> &[String] {
        &self.rules.members
    }

    pub(crate) fn propose(&mut self, proposal: Proposal, now_ms: u64) -> Result<(), GatewayError> {
        let is_used = |id: &str| self.find_open_id(id).is_some() || self.was_decided(id);
        if is_used(&proposal.id) || is_used(&proposal.message_id) {
            return Err(GatewayError::invalid("proposal id", "an unused id"));
        }
        if self.open.len() >= PROPOSALS_OPEN_MAX {
            let message = format!("{PROPOSALS_OPEN_MAX} proposals are open already");
            return Err(GatewayError::new(ErrorCode::AgentBusy, message));
        }
        let deadline = proposal.deadline_ms.filter(|deadline| *deadline > now_ms);
        let closes_ms = deadline
            .unwrap_or(now_ms.saturating_add(self.rules.deliberation_ms))
            .min(now_ms.saturating_add(DELIBERATION_MS_MAX));
        let Proposal { id, message_id, proposer, deadline_ms: _ } = proposal;
        self.open.insert(id, OpenProposal { message_id, proposer, closes_ms, votes: BTreeMap::new() });
        Ok(())
    }

    /// Records the vote of a member, in place of its former one. Returns the decision if this vote
    /// completes it.
    pub(crate) fn record_vote(
        &mut self,
        proposal_id: &str,
        voter: &str,
        vote: Vote,
    ) -> Result<Option<Decision>, GatewayError> {
        if !self.rules.members.iter().any(|member| member == voter) {
            let message = format!("{voter} is not a member of the triad");
            return Err(GatewayError::new(ErrorCode::PermissionDenied, message));
        }
        let Some(id) = self.find_open_id(proposal_id) else {
            let message = if self.was_decided(proposal_id) {
                "proposal is already decided"
            } else {
                "proposal not found"
            };
            return Err(GatewayError::new(ErrorCode::InvalidContent, message));
        };
        if let Some(open) = self.open.get_mut(&id) {
            open.votes.insert(voter.to_owned(), vote);
        }
        Ok(if self.is_complete(&id) { self.close(&id) } else { None })
    }

    /// Decides the proposals whose deadline has passed.
    pub(crate) fn decide_due(&mut self, now_ms: u64) -> Vec<Decision> {
        let due = self.open.iter().filter(|(_, open)| open.closes_ms <= now_ms);
        let mut due: Vec<_> = due.map(|(id, open)| (open.closes_ms, id.clone())).collect();
        due.sort();
        due.iter().filter_map(|(_, id)| self.close(id)).collect()
    }

    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.open.values().map(|open| open.closes_ms).min()
    }

    fn find_open_id(&self, id: &str) -> Option<String> {
        if self.open.contains_key(id) {
            return Some(id.to_owned());
        }
        self.open.iter().find(|(_, open)| open.message_id == id).map(|(id, _)| id.clone())
    }

    fn was_decided(&self, id: &str) -> bool {
        self.decided.iter().any(|ids| ids.iter().any(|known| known == id))
    }

    fn is_complete(&self, id: &str) -> bool {
        let Some(open) = self.open.get(id) else { return false };
        let has_consensus =
            |vote| open.votes.values().filter(|cast| **cast == vote).count() >= CONSENSUS_VOTES;
        open.votes.len() == self.rules.members.len()
            || self.rules.decides_early && (has_consensus(Vote::Approve) || has_consensus(Vote::Reject))
    }

    fn close(&mut self, id: &str) -> Option<Decision> {
        let (id, open) = self.open.remove_entry(id)?;
        if self.decided.len() >= PROPOSALS_DECIDED_MAX {
            self.decided.pop_front();
        }
        self.decided.push_back([id.clone(), open.message_id]);
        Some(Decision { proposal_id: id, proposer: open.proposer, votes: open.votes })
    }
}

#[cfg(test)]
mod tests;

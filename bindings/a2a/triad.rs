//! Deliberation: proposals, votes of the three members, decisions.
//!
//! A proposal is decided when every member has voted or when its deadline comes; as an option, as soon as the outcome
//! is certain. A member may change its mind until then. Time is a parameter.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Value, json};

use super::ConnectionId;
use super::codes::{ErrorCode, Refusal};

/// Proposals that are open at once; one more gets 3003. A triad has this many only when nobody votes any more.
pub(crate) const PROPOSALS_OPEN_MAX: usize = 1024;

/// Decided proposals whose ids are remembered, so that they are not used again.
pub(crate) const PROPOSALS_DECIDED_MAX: usize = 1024;

/// Longest deliberation. What takes longer than a day would hold its place against everybody else.
pub(crate) const DELIBERATION_MS_MAX: u64 = 24 * 3600 * 1000;

/// Time to deliberate unless the proposal gives a deadline that is still to come.
pub(crate) const DELIBERATION_MS_DEFAULT: u64 = 5 * 60 * 1000;

/// As many votes one way are a consensus, for or against.
const CONSENSUS_VOTES: usize = 2;

/// What a member may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    Approve,
    Reject,
    Abstain,
}

impl Vote {
    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Abstain => "abstain",
        }
    }

    /// The vote of that name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        [Self::Approve, Self::Reject, Self::Abstain].into_iter().find(|vote| vote.name() == name)
    }
}

/// How a triad deliberates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) members: Vec<String>,
    pub(crate) deliberation_ms: u64,
    /// Whether to decide as soon as enough votes agree.
    pub(crate) decides_early: bool,
}

/// A proposal as it comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// What decisions call it: its correlation, or its message id.
    pub(crate) id: String,
    /// Votes may call it that too.
    pub(crate) message_id: String,
    pub(crate) proposer: ConnectionId,
    pub(crate) deadline_ms: Option<u64>,
}

#[derive(Debug)]
struct Open {
    message_id: String,
    proposer: ConnectionId,
    closes_ms: u64,
    votes: BTreeMap<String, Vote>,
}

/// How it ended.
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

    /// Whether it was approved.
    pub(crate) fn is_approved(&self) -> bool {
        self.count(Vote::Approve) >= CONSENSUS_VOTES
    }

    /// Whether enough members agreed, either way.
    pub(crate) fn is_consensus(&self) -> bool {
        self.is_approved() || self.count(Vote::Reject) >= CONSENSUS_VOTES
    }

    /// The content of the decision's frame. Who did not vote is left out.
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

/// The open proposals, and the ids of those that were decided.
#[derive(Debug)]
pub(crate) struct Triad {
    rules: Rules,
    open: HashMap<String, Open>,
    decided: VecDeque<[String; 2]>,
}

impl Triad {
    /// A triad with nothing to decide.
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, open: HashMap::new(), decided: VecDeque::new() }
    }

    /// Who votes.
    pub(crate) fn members(&self) -> &[String] {
        &self.rules.members
    }

    /// Opens a proposal.
    pub(crate) fn propose(&mut self, proposal: Proposal, now_ms: u64) -> Result<(), Refusal> {
        let is_used = |id: &str| self.find(id).is_some() || self.was_decided(id);
        if is_used(&proposal.id) || is_used(&proposal.message_id) {
            return Err(Refusal::invalid("proposal id", "one that was not used before"));
        }
        if self.open.len() >= PROPOSALS_OPEN_MAX {
            let message = format!("{PROPOSALS_OPEN_MAX} proposals are open already");
            return Err(Refusal::new(ErrorCode::AgentBusy, message));
        }
        let wanted = proposal.deadline_ms.filter(|deadline| *deadline > now_ms);
        let closes_ms = wanted
            .unwrap_or(now_ms.saturating_add(self.rules.deliberation_ms))
            .min(now_ms.saturating_add(DELIBERATION_MS_MAX));
        let Proposal { id, message_id, proposer, deadline_ms: _ } = proposal;
        self.open.insert(id, Open { message_id, proposer, closes_ms, votes: BTreeMap::new() });
        Ok(())
    }

    /// A member votes; the last word counts. Returns the decision if that was what it waited for.
    pub(crate) fn vote(
        &mut self,
        proposal_id: &str,
        voter: &str,
        vote: Vote,
    ) -> Result<Option<Decision>, Refusal> {
        if !self.rules.members.iter().any(|member| member == voter) {
            let message = format!("{voter} is no member of the triad");
            return Err(Refusal::new(ErrorCode::PermissionDenied, message));
        }
        let Some(id) = self.find(proposal_id) else {
            let what = if self.was_decided(proposal_id) { "decided already" } else { "not known" };
            return Err(Refusal::new(ErrorCode::InvalidContent, format!("the proposal is {what}")));
        };
        if let Some(open) = self.open.get_mut(&id) {
            open.votes.insert(voter.to_owned(), vote);
        }
        Ok(if self.is_settled(&id) { self.close(&id) } else { None })
    }

    /// Decides everything whose time has come.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<Decision> {
        let due = self.open.iter().filter(|(_, open)| open.closes_ms <= now_ms);
        let mut due: Vec<_> = due.map(|(id, open)| (open.closes_ms, id.clone())).collect();
        due.sort();
        due.iter().filter_map(|(_, id)| self.close(id)).collect()
    }

    /// When the next deadline comes.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.open.values().map(|open| open.closes_ms).min()
    }

    fn find(&self, id: &str) -> Option<String> {
        if self.open.contains_key(id) {
            return Some(id.to_owned());
        }
        self.open.iter().find(|(_, open)| open.message_id == id).map(|(id, _)| id.clone())
    }

    fn was_decided(&self, id: &str) -> bool {
        self.decided.iter().any(|ids| ids.iter().any(|known| known == id))
    }

    fn is_settled(&self, id: &str) -> bool {
        let Some(open) = self.open.get(id) else { return false };
        let agreed = |vote| open.votes.values().filter(|cast| **cast == vote).count() >= CONSENSUS_VOTES;
        open.votes.len() == self.rules.members.len()
            || self.rules.decides_early && (agreed(Vote::Approve) || agreed(Vote::Reject))
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

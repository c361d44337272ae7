//! Proposals to the triad, its votes, and who hears of the decision.

use super::super::ConnectionId;
use super::super::codes::Refusal;
use super::super::triad::{Decision, Proposal, Vote};
use super::super::wire::{self, Envelope, Type, from_gateway};
use super::routing::stamped;
use super::{Gateway, Turn};

impl Gateway {
    /// Puts a proposal before the members who are there. Those who come later may still vote.
    pub(super) fn propose(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        deadline_ms: Option<u64>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let sender = self.sender(id, envelope.from.as_deref(), turn)?;
        let correlation_id = envelope.metadata.correlation_id.clone();
        let message_id = envelope.id.clone().unwrap_or_default();
        let mut frame = stamped(envelope, &sender, turn.now_ms);
        let proposal_id = correlation_id.unwrap_or_else(|| message_id.clone());
        let proposal = Proposal { id: proposal_id.clone(), message_id, proposer: id, deadline_ms };
        self.triad.propose(proposal, turn.now_ms)?;
        wire::correlate(&mut frame, &proposal_id);
        for member in self.triad.members() {
            if let Some(seat) = self.registry.seat(member)
                && *member != sender
            {
                turn.send_copy(seat, member, &frame);
            }
        }
        Ok(())
    }

    /// Only a member who is who it says may vote.
    pub(super) fn vote(
        &mut self,
        id: ConnectionId,
        envelope: &Envelope,
        proposal_id: &str,
        vote: Vote,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let voter = self.agent_of(id, envelope.from.as_deref(), "only members of the triad vote", turn)?;
        if let Some(decision) = self.triad.vote(proposal_id, &voter, vote)? {
            self.decide(&decision, turn);
        }
        Ok(())
    }

    /// The proposer and the members hear of it, each connection once.
    pub(super) fn decide(&self, decision: &Decision, turn: &mut Turn<'_>) {
        let seats = self.triad.members().iter().filter_map(|member| self.registry.seat(member));
        let mut audience: Vec<_> = seats.chain([decision.proposer]).collect();
        audience.retain(|id| self.connections.contains_key(id));
        audience.sort_unstable();
        audience.dedup();
        let id = Some(decision.proposal_id.as_str());
        let frame = from_gateway(Type::Decision, decision.content(), id, turn.now_ms);
        for id in audience {
            turn.send(id, frame.clone());
        }
    }
}

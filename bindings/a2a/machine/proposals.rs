//! Proposals to the triad, votes of its members, and decisions.

use super::super::ConnectionId;
use super::super::codes::GatewayError;
use super::super::triad::{Decision, Proposal, Vote};
use super::super::wire::{self, Envelope, FrameType, gateway_frame};
use super::routing::stamp_frame;
use super::{Gateway, Step};

impl Gateway {
    /// Opens a proposal, and sends it to the connected members. Members that connect later may
    /// still vote.
    pub(super) fn propose(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        deadline_ms: Option<u64>,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let sender = self.resolve_sender(id, envelope.from.as_deref(), step)?;
        let correlation_id = envelope.metadata.correlation_id.clone();
        let message_id = envelope.id.clone().unwrap_or_default();
        let mut frame = stamp_frame(envelope, &sender, step.now_ms);
        let proposal_id = correlation_id.unwrap_or_else(|| message_id.clone());
        let proposal = Proposal { id: proposal_id.clone(), message_id, proposer: id, deadline_ms };
        self.triad.propose(proposal, step.now_ms)?;
        wire::set_correlation_id(&mut frame, &proposal_id);
        for member in self.triad.members() {
            if let Some(connection) = self.registry.connection(member)
                && *member != sender
            {
                step.send_copy(connection, member, &frame);
            }
        }
        Ok(())
    }

    /// Records the vote of a member that is an agent of the connection.
    pub(super) fn handle_vote(
        &mut self,
        id: ConnectionId,
        envelope: &Envelope,
        proposal_id: &str,
        vote: Vote,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let voter =
            self.resolve_own_agent(id, envelope.from.as_deref(), "only members of the triad can vote", step)?;
        if let Some(decision) = self.triad.record_vote(proposal_id, &voter, vote)? {
            self.send_decision(&decision, step);
        }
        Ok(())
    }

    /// Sends a decision to the proposer and the members, once per connection.
    pub(super) fn send_decision(&self, decision: &Decision, step: &mut Step<'_>) {
        let connections = self.triad.members().iter().filter_map(|member| self.registry.connection(member));
        let mut receivers: Vec<_> = connections.chain([decision.proposer]).collect();
        receivers.retain(|id| self.connections.contains_key(id));
        receivers.sort_unstable();
        receivers.dedup();
        let id = Some(decision.proposal_id.as_str());
        let frame = gateway_frame(FrameType::Decision, decision.content(), id, step.now_ms);
        for id in receivers {
            step.send(id, frame.clone());
        }
    }
}

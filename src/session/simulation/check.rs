//! What must hold after every step, and what may be left when everything is quiet.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::{RoundTrips, World};
use crate::protocol::client_messages::Closing;
use crate::session::boundary::ToSession;
use crate::session::{RefHolder, RootId, Session, SessionState, Time};

/// Longer than anything waits: the limits of calls and evals, and the budget of the background.
const REST: Duration = Duration::from_secs(4_000);

impl World {
    /// What holds at every moment.
    pub(super) fn check_step(&mut self) {
        let (state, limits) = (&self.session.state, &self.limits);
        assert!(state.evals.queued() <= limits.queued_evals_max, "too many evals wait");
        assert!(state.timers.len() <= limits.timers_max, "too many timers");
        assert!(state.references.held_by(RefHolder::Client) <= limits.references_max, "too many exports");
        assert!(state.references.held_by(RefHolder::Handler) <= limits.references_max, "too many exports");
        assert!(state.references.imports_len() <= limits.references_max, "too many imports");
        assert_eq!(state.in_turn.is_some(), self.turn.is_some(), "who runs");
        // Inside a turn there may be functions of a result that is not delivered.
        if state.client.is_none() && self.turn.is_none() && !self.is_unclaimed {
            assert_eq!(state.references.held_by(RefHolder::Client), 0, "functions of no client");
        }
        if let (Some(number), None) = (self.clients.attached, self.host.ended) {
            assert_eq!(state.connection(), Some(number), "the connection that the host knows");
        }
        let open = |is_line: bool| {
            let calls = self.clients.attached.and_then(|number| self.clients.connections.get(&number));
            let names = calls.into_iter().flat_map(|connection| connection.calls.values());
            names.filter(|name| (*name == "console.write") == is_line).count()
        };
        assert!(open(false) <= limits.client_calls_open_max, "too many calls at the client");
        assert!(open(true) <= limits.client_calls_open_max, "too many lines at the client");
        let is_due = match self.round_trips {
            RoundTrips::Never => false,
            RoundTrips::Sometimes => self.round_trip_rng.u8(..60) == 0,
            RoundTrips::Always => true,
        };
        if is_due {
            self.round_trip();
        }
    }

    /// Writes the state, reads it, and continues with what was read.
    pub(super) fn round_trip(&mut self) {
        let text = serde_json::to_string(&self.session.state).unwrap();
        let state: SessionState =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(serde_json::to_string(&state).unwrap(), text, "the state changed on its way");
        self.check_tables(&serde_json::from_str(&text).unwrap());
        self.session = Session::new(state, self.limits.clone());
        self.set_context();
    }

    /// What is only seen in the tables: the roots of the context are those that the state knows, and sums are right.
    fn check_tables(&self, state: &Value) {
        let mut known = BTreeSet::new();
        let mut note = |root: &Value| {
            if let Some(root) = root.as_u64().and_then(|root| u32::try_from(root).ok()) {
                assert!(known.insert(RootId(root)), "the root {root} is known twice");
            }
        };
        let waiting = state["script_calls"]["waiting"].as_object().unwrap();
        for call in waiting.values() {
            note(&call["resolve"]);
            note(&call["reject"]);
        }
        state["promises"].as_array().unwrap().iter().for_each(|promise| note(&promise["promise"]));
        for rejection in state["rejections"].as_array().unwrap() {
            note(&rejection["promise"]);
            note(&rejection["reason"]);
        }
        let uses = state["references"]["uses"].as_array().unwrap();
        uses.iter().for_each(|uses| note(&uses[1]["root"]));
        let live: BTreeSet<RootId> = self.context.live.keys().copied().collect();
        assert_eq!(live, known, "roots of the context, and roots of the state");
        let payload_bytes: u64 = waiting.values().filter_map(|call| call["payload_bytes"].as_u64()).sum();
        assert_eq!(state["script_calls"]["payload_bytes"], payload_bytes);
        self.check_outbox(&state["client_calls"]);
    }

    /// The places at the client are as many as calls there are, and no call waits while there is a place.
    fn check_outbox(&self, client_calls: &Value) {
        let (calls, outbox) = (client_calls["calls"].as_object().unwrap(), &client_calls["outbox"]);
        let sent = |is_line: bool| {
            let sent = calls.values().filter(|call| call["unsent"].is_null());
            sent.filter(|call| (call["waiter"] == "Line") == is_line).count() as u64
        };
        assert_eq!(outbox["calls_open"], sent(false), "calls at the client");
        assert_eq!(outbox["lines_open"], sent(true), "lines at the client");
        let held = calls.iter().filter(|(_, call)| call["held_bytes"] != 0);
        let held: Vec<u64> = held.filter_map(|(number, _)| number.parse().ok()).collect();
        let queued: Vec<u64> =
            outbox["held_calls"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        let sorted = BTreeSet::from_iter(held);
        assert_eq!(sorted, BTreeSet::from_iter(queued), "calls that are held");
        let open_max = self.limits.client_calls_open_max as u64;
        assert!(sorted.is_empty() || sent(false) == open_max, "a call is held although there is a place");
        let lines = outbox["ordered"].as_array().unwrap();
        assert!(lines.is_empty() || sent(true) == open_max, "a line is held although there is a place");
        assert_eq!(client_calls["deadlines"].as_array().unwrap().len(), calls.len(), "deadlines of calls");
    }

    /// Lets everything come to rest, with the client and then without; then ends the session.
    pub(super) fn finish(&mut self) {
        self.come_to_rest();
        if self.host.ended.is_none() {
            self.check_rest();
            if let Some(number) = self.clients.attached {
                self.cut(number);
            }
            self.come_to_rest();
        }
        if self.host.ended.is_none() {
            self.check_detached();
            self.send(ToSession::End(Closing::GoingAway));
            self.drive_to_rest();
        }
        assert!(self.host.ended.is_some(), "the session ended");
        self.finish_handlers();
        self.host.check_balance();
    }

    /// Clients answer, handlers finish, time passes, until nothing happens any more.
    fn come_to_rest(&mut self) {
        for _ in 0..1_000 {
            self.drive_to_rest();
            let numbers: Vec<u64> = self.clients.connections.keys().copied().collect();
            let mut is_quiet = true;
            for number in numbers {
                while self.answer_call(number) {
                    is_quiet = false;
                }
            }
            is_quiet &= !self.finish_handlers();
            if !is_quiet {
                continue;
            }
            let wake_at = self.session.wake_at(self.now);
            match wake_at {
                Some(at) if self.host.ended.is_none() => self.rest_until(at),
                Some(_) | None => return,
            }
        }
        panic!("the session does not come to rest");
    }

    fn rest_until(&mut self, at: Time) {
        assert!(at <= self.now + REST, "a wait without end");
        assert!(at > self.now, "what is due is done");
        self.now = at;
    }

    /// Nothing happens any more: every request of the attached client is answered, nothing waits.
    fn check_rest(&mut self) {
        let state = &self.session.state;
        if let Some(connection) =
            self.clients.attached.and_then(|number| self.clients.connections.get(&number))
        {
            assert!(connection.requests.is_empty(), "requests not answered: {:?}", connection.requests);
            assert!(connection.peer.is_idle() && !connection.peer.awaits_answers(), "the connection waits");
        }
        assert!(state.evals.running.is_none() && state.evals.queued() == 0, "evals are left");
        assert!(state.ready.is_empty() && state.deferred.is_empty(), "turns are left");
        assert!(state.pending.is_empty() && state.turn_charges.is_empty(), "calls are left");
        assert!(state.script_calls.is_empty(), "calls of the script are not settled");
        assert!(state.invocations.is_empty(), "invocations are left");
        assert!(state.promises.is_empty(), "promises are left: {:?}", state.promises);
        assert!(state.client_calls.next_deadline().is_none(), "calls to the client are left");
        assert!(!state.client_calls.outbox.holds_lines(), "lines are left");
        self.host.check_balance();
        self.round_trip();
    }

    /// The same without a client: what is left can wait for the next one.
    fn check_detached(&mut self) {
        self.check_rest();
        let state = &self.session.state;
        assert!(state.client.is_none(), "no connection");
        assert!(
            self.is_unclaimed || state.references.held_by(RefHolder::Client) == 0,
            "functions of no client"
        );
    }
}

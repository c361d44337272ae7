//! Calls to the client that have not been answered, with their deadlines and their places in the outbox.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Outbox;
use crate::protocol::methods::{Payload, Target};
use crate::session::{ChargedTo, Time};

/// What waits for an answer of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Waiter {
    /// The script, for its call of that number.
    Script {
        /// The number of the script's call.
        call: u64,
        /// Who pays for it.
        charged_to: ChargedTo,
    },
    /// A handler.
    Handler {
        /// The host's number for the handler's request.
        request: u64,
        /// The script's call that the handler serves, if it serves one.
        script_call: Option<u64>,
    },
    /// Nothing: it is a console line.
    Line,
    /// The next call of `bindings.changed`.
    Announcement,
}

/// A call to the client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClientCall {
    /// What gets the answer.
    pub waiter: Waiter,
    /// A binding or a function of the client.
    pub target: Target,
    /// The payload as long as it waits for the client to come back or for a place; what has been sent is not sent again.
    pub unsent: Option<Payload>,
    /// The bytes of a payload that waits for a place.
    pub held_bytes: usize,
    /// When the call is given up.
    pub deadline: Time,
    /// How many invokes it is inside of.
    pub depth: u32,
    /// Whose clock is paused until the answer.
    pub pauses: Option<ChargedTo>,
}

/// See the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClientCalls {
    calls: BTreeMap<u64, ClientCall>,
    deadlines: BTreeSet<(Time, u64)>,
    /// What waits for a place at the client.
    pub outbox: Outbox,
}

impl ClientCalls {
    /// Room for `open_max` calls at the client at a time.
    pub(crate) fn new(open_max: usize) -> Self {
        Self { calls: BTreeMap::new(), deadlines: BTreeSet::new(), outbox: Outbox::new(open_max) }
    }

    /// Adds a call.
    pub(crate) fn insert(&mut self, number: u64, call: ClientCall) {
        self.deadlines.insert((call.deadline, number));
        self.calls.insert(number, call);
    }

    /// Takes a call out; its place is free.
    pub(crate) fn remove(&mut self, number: u64) -> Option<ClientCall> {
        let call = self.calls.remove(&number)?;
        self.deadlines.remove(&(call.deadline, number));
        match call.unsent {
            None => self.outbox.note_over(call.waiter == Waiter::Line),
            Some(_) => self.outbox.forget_held(number, call.held_bytes),
        }
        Some(call)
    }

    /// Takes the payload of a call that was held back and has a place now.
    pub(crate) fn take_held(&mut self, number: u64) -> Option<(Target, Payload)> {
        let call = self.calls.get_mut(&number)?;
        let payload = call.unsent.take()?;
        self.outbox.forget_held(number, std::mem::take(&mut call.held_bytes));
        self.outbox.note_sent(false);
        Some((call.target.clone(), payload))
    }

    /// When the next call is given up.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A call whose time is over.
    pub(crate) fn first_expired(&self, now: Time) -> Option<u64> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, number)| *number)
    }

    /// The numbers of the calls that `is_wanted` accepts, in the order in which they were made.
    pub(crate) fn numbers(&self, is_wanted: impl Fn(&ClientCall) -> bool) -> Vec<u64> {
        self.calls.iter().filter(|(_, call)| is_wanted(call)).map(|(number, _)| *number).collect()
    }

    /// The call that waits for a handler's request.
    pub(crate) fn number_for_handler(&self, wanted: u64) -> Option<u64> {
        let is_wanted =
            |call: &ClientCall| matches!(call.waiter, Waiter::Handler { request, .. } if request == wanted);
        self.calls.iter().find(|(_, call)| is_wanted(call)).map(|(number, _)| *number)
    }

    /// The deepest call that the client has to answer.
    pub(crate) fn depth(&self) -> u32 {
        self.calls.values().map(|call| call.depth).max().unwrap_or(0)
    }
}

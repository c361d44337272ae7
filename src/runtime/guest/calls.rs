//! The calls that the script waits for.

use std::collections::HashMap;

use rquickjs::{Function, Persistent};

use super::Owner;
use crate::scomp::methods::Payload;

/// Where a call of the script goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A binding of the server.
    Server(String),
    /// A binding of the client.
    Client(String),
    /// A function of the client or of a handler.
    Import(String),
}

/// A call that the script made since the session last looked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) call: u64,
    pub(crate) reach: Reach,
    pub(crate) payload: Payload,
    pub(crate) owner: Owner,
    /// The functions in the payload that a handler now holds.
    pub(crate) functions: Vec<String>,
}

/// The two ends of a promise.
pub(crate) struct Settlers {
    pub(crate) resolve: Persistent<Function<'static>>,
    pub(crate) reject: Persistent<Function<'static>>,
    pub(crate) owner: Owner,
}

/// The calls in flight.
#[derive(Default)]
pub(crate) struct Calls {
    next: u64,
    waiting: HashMap<u64, Settlers>,
    asked: Vec<Asked>,
    /// How many calls each owner has made.
    made: HashMap<Owner, u64>,
}

impl Calls {
    /// Counts a call of `owner`; `false` when it has made `calls_max` already.
    pub(crate) fn charge(&mut self, owner: Owner, calls_max: u64) -> bool {
        let made = self.made.entry(owner).or_default();
        *made += 1;
        *made <= calls_max
    }

    /// How many calls an owner has made.
    pub(crate) fn made_by(&self, owner: Owner) -> u64 {
        self.made.get(&owner).copied().unwrap_or_default()
    }

    /// The owner is over; what floats from here on has a budget of its own.
    pub(crate) fn close_account(&mut self, owner: Owner) {
        self.made.remove(&owner);
        self.made.remove(&Owner::Nobody);
    }

    /// Notes a call; its promise is settled later.
    pub(crate) fn open(
        &mut self,
        settlers: Settlers,
        reach: Reach,
        payload: Payload,
        functions: Vec<String>,
    ) {
        self.next += 1;
        let owner = settlers.owner;
        self.waiting.insert(self.next, settlers);
        self.asked.push(Asked { call: self.next, reach, payload, owner, functions });
    }

    /// Goes on with the numbers where another table stopped, so that a late answer finds nobody.
    pub(crate) fn go_on_from(&mut self, other: &Self) {
        self.next = self.next.max(other.next);
    }

    /// What was asked since the last look.
    pub(crate) fn take_asked(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.asked)
    }

    /// Takes the promise of a call.
    pub(crate) fn take(&mut self, call: u64) -> Option<Settlers> {
        self.waiting.remove(&call)
    }

    /// How many it waits for.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

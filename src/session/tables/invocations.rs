//! Functions of the script at work for the client or a handler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Callable, WallClock};
use crate::schema::FunctionSchemas;
use crate::session::{Requester, Time};

/// Who called a function or a binding, and gets the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InvokedBy {
    /// The client, with this request.
    Client(Requester),
    /// A handler.
    Handler {
        /// The host's number for the handler's request.
        request: u64,
        /// The script's call that the handler serves, if it serves one.
        script_call: Option<u64>,
    },
}

/// A function of the script at work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Invocation {
    /// Who called it.
    pub by: InvokedBy,
    /// The function, which is kept until it is over.
    pub function: Callable,
    /// What it is to return.
    pub schemas: Option<Arc<FunctionSchemas>>,
    /// CPU time used so far.
    pub cpu: Duration,
    /// Time by the clock.
    pub clock: WallClock,
    /// How many invokes it is inside of.
    pub depth: u32,
}

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Invocations(BTreeMap<u64, Invocation>);

impl Invocations {
    /// Adds one.
    pub(crate) fn insert(&mut self, number: u64, invocation: Invocation) {
        self.0.insert(number, invocation);
    }

    /// Takes one that is over.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Invocation> {
        self.0.remove(&number)
    }

    /// The one of that number.
    pub(crate) fn get(&self, number: u64) -> Option<&Invocation> {
        self.0.get(&number)
    }

    /// The one of that number, to be changed.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Invocation> {
        self.0.get_mut(&number)
    }

    /// Whether it is still at work.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.0.contains_key(&number)
    }

    /// All of them, in the order in which they began.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }

    /// Those whose time by the clock is over.
    pub(crate) fn expired(&self, now: Time) -> Vec<u64> {
        let expired = self.0.iter().filter(|(_, invocation)| invocation.clock.is_over(now));
        expired.map(|(number, _)| *number).collect()
    }

    /// When the next one's time is over.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.0.values().filter_map(|invocation| invocation.clock.deadline()).min()
    }

    /// Whether none is at work.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

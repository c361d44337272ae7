//! The calls that the script waits for.

use std::collections::{BTreeMap, HashMap};

use rquickjs::{Function, Persistent};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::total::Claim;
use super::{ChargedTo, ValueSource};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::Payload;
use crate::rpc::ErrorObject;

/// Where a call of the script goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallTarget {
    /// The binding of the server with that number.
    Server(u32),
    /// A binding of the client.
    Client(String),
    /// A function of the client or of a handler.
    Import(FnRef),
}

/// What a call gave.
#[derive(Debug)]
pub(crate) enum CallValue {
    /// From a handler.
    Tree(Value),
    /// From the client, as it was sent: it becomes a value of the script without a tree in between.
    Text(Box<RawValue>),
}

/// The answer to a call, and who gave it.
pub(crate) type CallAnswer = (Result<CallValue, ErrorObject>, ValueSource);

/// Takes a call that the script makes; an answer that is there at once spares the way round.
pub(crate) type Dispatch = dyn Fn(CallRequest) -> Option<CallAnswer>;

/// A call that the script makes.
#[derive(Debug)]
pub(crate) struct CallRequest {
    pub(crate) call: u64,
    pub(crate) target: CallTarget,
    pub(crate) payload: Payload,
    pub(crate) owner: ChargedTo,
    /// The functions in the payload that a handler now holds.
    pub(crate) functions: Vec<FnRef>,
}

/// The two ends of a promise.
pub(crate) struct Settlers {
    pub(crate) resolve: Persistent<Function<'static>>,
    pub(crate) reject: Persistent<Function<'static>>,
    /// Where in the script the call was made.
    pub(crate) stack: String,
    /// What its payload takes in memory until the answer is there.
    pub(crate) payload_bytes: usize,
    /// Its part of the memory of all sessions, if it is large.
    pub(crate) _claim: Option<Claim>,
}

/// The calls in flight.
#[derive(Default)]
pub(crate) struct Calls {
    next: u64,
    waiting: HashMap<u64, Settlers>,
    /// What the payloads of these take in memory.
    waiting_bytes: usize,
    /// How many calls each owner has made. Few have: a tree finds one of them faster than a hash is computed.
    made: BTreeMap<ChargedTo, u64>,
}

impl Calls {
    /// Counts a call of `owner` and gives it a number; `None` when it has made `calls_max` already.
    pub(crate) fn number(&mut self, owner: ChargedTo, calls_max: u64) -> Option<u64> {
        let made = self.made.entry(owner).or_default();
        *made += 1;
        if *made > calls_max {
            return None;
        }
        self.next += 1;
        Some(self.next)
    }

    /// The answer to a call is to come.
    pub(crate) fn wait(&mut self, call: u64, settlers: Settlers) {
        self.waiting_bytes += settlers.payload_bytes;
        self.waiting.insert(call, settlers);
    }

    /// How many calls an owner has made.
    pub(crate) fn made_by(&self, owner: ChargedTo) -> u64 {
        self.made.get(&owner).copied().unwrap_or_default()
    }

    /// The owner is over; what floats from here on has a budget of its own.
    pub(crate) fn close_account(&mut self, owner: ChargedTo) {
        self.made.remove(&owner);
        self.made.remove(&ChargedTo::Background);
    }

    /// Goes on with the numbers where another table stopped, so that a late answer finds nobody.
    pub(crate) fn go_on_from(&mut self, other: &Self) {
        self.next = self.next.max(other.next);
    }

    /// Takes the promise of a call.
    pub(crate) fn take(&mut self, call: u64) -> Option<Settlers> {
        let settlers = self.waiting.remove(&call)?;
        self.waiting_bytes -= settlers.payload_bytes;
        Some(settlers)
    }

    /// Whether no further payload has room, so that it need not be made.
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        self.waiting_bytes >= bytes_max
    }

    /// Whether there is room for a payload beside those of the calls that wait.
    pub(crate) fn has_room(&self, payload_bytes: usize, bytes_max: usize) -> bool {
        self.waiting_bytes.saturating_add(payload_bytes) <= bytes_max
    }

    /// How many it waits for.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

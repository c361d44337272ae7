//! The calls that the script waits for, by the session's own numbers.
//!
//! The two ends of a call's promise stay in the context; here are the numbers of their roots.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::session::{ChargedTo, RootId};

/// A call that has not been answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScriptCall {
    /// The function that resolves its promise.
    pub resolve: RootId,
    /// The function that rejects its promise.
    pub reject: RootId,
    /// Where in the script the call was made: when it fails, the script is elsewhere.
    pub stack: String,
    /// What its payload takes in memory until the answer is there.
    pub payload_bytes: usize,
    /// The part of it that counts towards the memory of all sessions.
    pub claimed_bytes: usize,
}

/// A promise that was rejected and is not handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rejection {
    /// The promise.
    pub promise: RootId,
    /// What it was rejected with.
    pub reason: RootId,
}

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ScriptCalls {
    last_number: u64,
    waiting: BTreeMap<u64, ScriptCall>,
    payload_bytes: usize,
    claimed_bytes: usize,
    #[serde(with = "crate::session::pairs")]
    made: BTreeMap<ChargedTo, u64>,
}

impl ScriptCalls {
    /// Counts a call and numbers it; `None` when `charged_to` has made `calls_max` already.
    pub(crate) fn open(&mut self, charged_to: ChargedTo, calls_max: u64) -> Option<u64> {
        let made = self.made.entry(charged_to).or_default();
        *made += 1;
        if *made > calls_max {
            return None;
        }
        self.last_number += 1;
        Some(self.last_number)
    }

    /// Keeps a call until its answer is there.
    pub(crate) fn wait(&mut self, number: u64, call: ScriptCall) {
        self.payload_bytes += call.payload_bytes;
        self.claimed_bytes += call.claimed_bytes;
        self.waiting.insert(number, call);
    }

    /// Says where in the script a call was made.
    pub(crate) fn set_stack(&mut self, number: u64, stack: String) {
        if let Some(call) = self.waiting.get_mut(&number) {
            call.stack = stack;
        }
    }

    /// Takes a call whose answer is there, or that is abandoned.
    pub(crate) fn take(&mut self, number: u64) -> Option<ScriptCall> {
        let call = self.waiting.remove(&number)?;
        self.payload_bytes -= call.payload_bytes;
        self.claimed_bytes -= call.claimed_bytes;
        Some(call)
    }

    /// The calls that wait, by their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &ScriptCall)> {
        self.waiting.iter().map(|(number, call)| (*number, call))
    }

    /// Drops every call, because the context ends that their promises belong to. Their numbers are not used again, so a
    /// late answer finds nothing.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        (self.payload_bytes, self.claimed_bytes) = (0, 0);
    }

    /// How many calls were made.
    pub(crate) fn made_by(&self, charged_to: ChargedTo) -> u64 {
        self.made.get(&charged_to).copied().unwrap_or_default()
    }

    /// Forgets how many calls were made; what floats from here on has a budget of its own.
    pub(crate) fn close_account(&mut self, charged_to: ChargedTo) {
        self.made.remove(&charged_to);
        self.made.remove(&ChargedTo::Background);
    }

    /// Whether no further payload has room, so that it need not be encoded.
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        self.payload_bytes >= bytes_max
    }

    /// Whether a payload has room beside those of the calls that wait.
    pub(crate) fn has_room(&self, payload_bytes: usize, bytes_max: usize) -> bool {
        self.payload_bytes.saturating_add(payload_bytes) <= bytes_max
    }

    /// Bytes of payloads that count towards the memory of all sessions.
    pub(crate) fn claimed_bytes(&self) -> usize {
        self.claimed_bytes
    }

    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no call waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(payload_bytes: usize) -> ScriptCall {
        let (resolve, reject) = (RootId(1), RootId(2));
        ScriptCall { resolve, reject, stack: String::new(), payload_bytes, claimed_bytes: payload_bytes }
    }

    #[test]
    fn calls_past_the_limit_are_refused_until_the_account_closes() {
        let mut calls = ScriptCalls::default();
        let eval = ChargedTo::Eval(1);
        assert_eq!((calls.open(eval, 1), calls.open(eval, 1)), (Some(1), None));
        calls.close_account(eval);
        assert_eq!(calls.open(eval, 1), Some(2));
    }

    #[test]
    fn payload_bytes_are_free_when_the_call_is_taken() {
        let mut calls = ScriptCalls::default();
        calls.wait(1, call(60));
        assert!(!calls.has_room(41, 100) && calls.has_room(40, 100) && calls.is_full(60));
        assert_eq!(calls.claimed_bytes(), 60);
        assert!(calls.take(1).is_some() && calls.take(1).is_none());
        assert_eq!((calls.claimed_bytes(), calls.is_full(1)), (0, false));
    }
}

//! Evals that run once: outcomes remembered under the client's own key.
//!
//! A client that lost its connection sends the eval again with the same key; it joins the run or gets the stored
//! outcome. An outcome with functions holds them, so that they are exported anew for the new connection.

use std::collections::{BTreeMap, VecDeque};

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use serde::{Deserialize, Serialize};

use super::Callable;
use crate::rpc::{ErrorObject, Kind};
use crate::session::Answer;

/// What an outcome counts beside its result and its key.
const ENTRY_BYTES: usize = 256;

/// What is known of a key.
#[derive(Debug)]
pub(crate) enum KeyedEval {
    /// Nothing: run it.
    New,
    /// It was accepted before and has not ended: it runs, or it waits.
    Pending,
    /// It ran, or the key cannot be used; this is the answer.
    Outcome(Answer),
    /// It ran and returned functions, which are to be exported anew.
    WithFunctions(Box<serde_json::value::RawValue>, Vec<(u64, Callable)>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum State {
    Pending,
    Done(Answer),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    /// SHA-256 of the code: the code itself may be a whole message long.
    code: [u8; SHA256_OUTPUT_LEN],
    state: State,
    bytes: usize,
    /// The functions in the outcome, by the numbers that they had.
    functions: Vec<(u64, Callable)>,
}

fn hash_code(code: &str) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, code.as_bytes()).as_ref());
    hash
}

/// The keys of a session, oldest outcome first out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeyedOutcomes {
    entries: BTreeMap<String, Entry>,
    order: VecDeque<String>,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
}

impl KeyedOutcomes {
    /// Remembers up to `entries_max` outcomes of `bytes_max` together.
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new(), bytes: 0, entries_max, bytes_max }
    }

    /// Looks a key up, and takes it for a new eval if it is free.
    pub(crate) fn find_or_claim(&mut self, key: &str, code: &str) -> KeyedEval {
        let code = hash_code(code);
        match self.entries.get(key) {
            None => {
                let entry = Entry { code, state: State::Pending, bytes: 0, functions: Vec::new() };
                self.entries.insert(key.to_owned(), entry);
                KeyedEval::New
            }
            Some(entry) if entry.code != code => {
                let message = format!("the key {key:?} was used with other code");
                KeyedEval::Outcome(Err(ErrorObject::new(Kind::KeyConflict, message)))
            }
            Some(Entry { state: State::Done(Ok(result)), functions, .. }) if !functions.is_empty() => {
                KeyedEval::WithFunctions(result.clone(), functions.clone())
            }
            Some(Entry { state: State::Done(answer), .. }) => KeyedEval::Outcome(answer.clone()),
            Some(Entry { state: State::Pending, .. }) => KeyedEval::Pending,
        }
    }

    /// Forgets a key that never ran.
    pub(crate) fn forget(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Forgets all; returns the functions of the outcomes, which are to be released.
    pub(crate) fn clear(&mut self) -> Vec<Callable> {
        self.order.clear();
        self.bytes = 0;
        let entries = std::mem::take(&mut self.entries);
        entries.into_values().flat_map(|entry| entry.functions).map(|(_, callable)| callable).collect()
    }

    /// The context of the functions ends; the outcomes stay, so that no keyed eval runs twice. A reference in one is
    /// then unknown, and never stands for another function. Returns the functions, which are to be released.
    pub(crate) fn drop_functions(&mut self) -> Vec<Callable> {
        let functions = self.entries.values_mut().flat_map(|entry| entry.functions.drain(..));
        functions.map(|(_, callable)| callable).collect()
    }

    /// Keeps the outcome of a key that was pending, and the functions in it; returns the functions of outcomes that had
    /// to go, which are to be released.
    pub(crate) fn store(
        &mut self,
        key: &str,
        answer: &Answer,
        functions: Vec<(u64, Callable)>,
    ) -> Vec<Callable> {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| matches!(entry.state, State::Pending))
        else {
            return functions.into_iter().map(|(_, callable)| callable).collect();
        };
        let answer_bytes = match answer {
            Ok(result) => result.get().len(),
            Err(error) => error.message.len() + error.data.as_ref().map_or(0, |data| data.to_string().len()),
        };
        entry.functions = functions;
        entry.state = State::Done(answer.clone());
        entry.bytes = answer_bytes + ENTRY_BYTES + key.len();
        self.bytes += entry.bytes;
        self.order.push_back(key.to_owned());
        self.drop_oldest()
    }

    fn drop_oldest(&mut self) -> Vec<Callable> {
        let mut released = Vec::new();
        while self.order.len() > self.entries_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry.bytes;
                released.extend(entry.functions.into_iter().map(|(_, callable)| callable));
            }
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::to_raw_value;

    fn run(keys: &mut KeyedOutcomes, key: &str, answer: &Answer) -> Vec<Callable> {
        assert!(matches!(keys.find_or_claim(key, "1"), KeyedEval::New));
        assert!(matches!(keys.find_or_claim(key, "1"), KeyedEval::Pending));
        keys.store(key, answer, vec![(1, Callable::Script(1))])
    }

    #[test]
    fn outcomes_past_the_number_drop_the_oldest() {
        let mut keys = KeyedOutcomes::new(2, 10_000);
        let answer: Answer = Ok(to_raw_value(&1).unwrap());
        assert!(run(&mut keys, "a", &answer).is_empty() && run(&mut keys, "b", &answer).is_empty());
        assert_eq!(run(&mut keys, "c", &answer), [Callable::Script(1)]);
        assert!(!keys.entries.contains_key("a") && keys.entries.contains_key("c"));
        assert_eq!(keys.bytes, 2 * (ENTRY_BYTES + 2));
    }

    #[test]
    fn outcomes_past_the_bytes_drop_the_oldest() {
        let mut keys = KeyedOutcomes::new(100, 2 * (ENTRY_BYTES + 25));
        let answer: Answer = Ok(to_raw_value(&"x".repeat(20)).unwrap());
        for name in ["a", "b", "c", "d"] {
            run(&mut keys, name, &answer);
        }
        assert_eq!(keys.entries.len(), 2);
        let huge: Answer = Ok(to_raw_value(&"x".repeat(600)).unwrap());
        assert_eq!(run(&mut keys, "e", &huge).len(), 3);
        assert_eq!((keys.entries.len(), keys.bytes), (0, 0));
    }

    #[test]
    fn key_with_other_code_is_a_conflict() {
        let mut keys = KeyedOutcomes::new(1, 10_000);
        run(&mut keys, "a", &Err(ErrorObject::new(Kind::EvalError, "no")));
        let KeyedEval::Outcome(Err(error)) = keys.find_or_claim("a", "2") else { panic!("no conflict") };
        assert!(error.is(Kind::KeyConflict));
    }
}

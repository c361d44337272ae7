//! Evals that run once: outcomes remembered under the client's own key.
//!
//! A client that lost its connection sends the eval again with the same key; it joins the run or gets the stored
//! outcome. An outcome with functions keeps its value, so that they are exported anew for the new connection.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::super::guest::{Callable, RefHolder};
use super::Session;
use super::evals::Answer;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::EvalParams;
use crate::rpc::{ErrorObject, Kind};

/// What an outcome counts beside its result and its key.
const ENTRY_BYTES: usize = 256;

/// What is known of a key.
pub(crate) enum Found {
    /// Nothing: run it.
    New,
    /// It was taken before and has not ended: it runs, or it waits.
    Pending,
    /// It ran; this is what it gave.
    Outcome(Answer),
    /// It ran and gave functions, which are to be exported anew.
    Again(Box<RawValue>, Vec<(FnRef, Callable)>),
}

enum State {
    Pending,
    Done(Answer),
}

struct Entry {
    /// SHA-256 of the code: the code itself may be a whole message long.
    code: [u8; SHA256_OUTPUT_LEN],
    state: State,
    bytes: usize,
    /// The functions in the outcome, by the reference that they had.
    functions: Vec<(FnRef, Callable)>,
}

fn hash_code(code: &str) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, code.as_bytes()).as_ref());
    hash
}

/// The keys of a session, oldest outcome first out.
pub(crate) struct Keys {
    entries: HashMap<String, Entry>,
    order: VecDeque<String>,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
}

impl Keys {
    /// Remembers up to `entries_max` outcomes of `bytes_max` together.
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), bytes: 0, entries_max, bytes_max }
    }

    /// Forgets a key that never ran.
    pub(crate) fn forget(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Forgets all; returns the functions of the outcomes, which the caller drops when the stack is empty.
    pub(crate) fn clear(&mut self) -> Vec<Callable> {
        self.order.clear();
        self.bytes = 0;
        let entries = std::mem::take(&mut self.entries);
        let functions = entries.into_values().flat_map(|entry| entry.functions);
        functions.map(|(_, callable)| callable).collect()
    }

    /// The context of the functions ends; the outcomes stay, so that no keyed eval runs twice. A reference in one is then
    /// unknown, and is never given to another function.
    pub(crate) fn drop_functions(&mut self) {
        for entry in self.entries.values_mut() {
            entry.functions.clear();
        }
    }

    /// Keeps the outcome of a key that was pending; gives the functions of outcomes that had to go.
    pub(crate) fn store(
        &mut self,
        key: &str,
        answer: &Answer,
        functions: Vec<(FnRef, Callable)>,
    ) -> Vec<Callable> {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| matches!(entry.state, State::Pending))
        else {
            return Vec::new();
        };
        let bytes = match answer {
            Ok(result) => result.get().len(),
            Err(error) => error.message.len() + error.data.as_ref().map_or(0, |data| data.to_string().len()),
        } + ENTRY_BYTES
            + key.len();
        entry.functions = functions;
        entry.state = State::Done(answer.clone());
        entry.bytes = bytes;
        self.bytes += bytes;
        self.order.push_back(key.to_owned());
        let mut let_go = Vec::new();
        while self.order.len() > self.entries_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry.bytes;
                let_go.extend(entry.functions.into_iter().map(|(_, callable)| callable));
            }
        }
        let_go
    }
}

impl Session {
    /// Looks a key up, and takes it for a new eval if it is free.
    pub(crate) fn find_keyed(&mut self, key: &str, params: &EvalParams) -> Found {
        let code = hash_code(&params.code);
        match self.keys.entries.get(key) {
            None => {
                let entry = Entry { code, state: State::Pending, bytes: 0, functions: Vec::new() };
                self.keys.entries.insert(key.to_owned(), entry);
                Found::New
            }
            Some(entry) if entry.code != code => {
                let message = format!("the key {key:?} was used with other code");
                Found::Outcome(Err(ErrorObject::new(Kind::KeyConflict, message)))
            }
            Some(Entry { state: State::Done(Ok(result)), functions, .. }) if !functions.is_empty() => {
                Found::Again(result.clone(), functions.clone())
            }
            Some(Entry { state: State::Done(answer), .. }) => Found::Outcome(answer.clone()),
            Some(Entry { state: State::Pending, .. }) => Found::Pending,
        }
    }

    /// Keeps the outcome of a keyed eval, and the functions in it.
    pub(crate) fn store_keyed(&mut self, key: &str, answer: &Answer, exported: &[FnRef]) {
        let functions = exported.iter().filter_map(|reference| {
            let functions = self.engine.guest.functions.borrow();
            let callable = functions.get(RefHolder::Client, reference.script_number()?)?;
            Some((reference.clone(), callable))
        });
        let functions = functions.collect();
        let let_go = self.keys.store(key, answer, functions);
        self.forget(let_go);
    }

    /// The stored result for a new connection: the functions in it are exported anew.
    pub(crate) fn renew_functions(&mut self, result: &RawValue, functions: Vec<(FnRef, Callable)>) -> Answer {
        let mut renewed = BTreeMap::new();
        for (reference, callable) in functions {
            let id = self.engine.guest.functions.borrow_mut().export(RefHolder::Client, callable);
            let Some(id) = id else {
                let exported: Vec<FnRef> = renewed.into_values().collect();
                self.take_back_functions(&exported);
                return Err(ErrorObject::new(Kind::TooManyRefs, "too many live function references"));
            };
            renewed.insert(reference, FnRef::Script(id));
        }
        let internal = |error: serde_json::Error| ErrorObject::new(Kind::Internal, error.to_string());
        let mut value: Value = serde_json::from_str(result.get()).map_err(internal)?;
        fn_values::rename(&mut value, |id| Some(renewed.get(&id.parse().ok()?)?.to_string()));
        to_raw_value(&value).map_err(internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_with(keys: &mut Keys, name: &str, answer: &Answer) {
        let entry = Entry { code: hash_code("1"), state: State::Pending, bytes: 0, functions: Vec::new() };
        keys.entries.insert(name.to_owned(), entry);
        keys.store(name, answer, Vec::new());
    }

    #[test]
    fn the_oldest_outcome_goes_first() {
        let mut keys = Keys::new(2, 10_000);
        let answer: Answer = Ok(to_raw_value(&1).unwrap());
        for name in ["a", "b", "c"] {
            keys_with(&mut keys, name, &answer);
        }
        assert!(!keys.entries.contains_key("a") && keys.entries.contains_key("c"));
        assert_eq!(keys.bytes, 2 * (ENTRY_BYTES + 2));
    }

    #[test]
    fn outcomes_are_bounded_in_bytes() {
        let mut keys = Keys::new(100, 2 * (ENTRY_BYTES + 25));
        let answer: Answer = Ok(to_raw_value(&"x".repeat(20)).unwrap());
        for name in ["a", "b", "c", "d"] {
            keys_with(&mut keys, name, &answer);
        }
        assert_eq!(keys.entries.len(), 2);
        let huge: Answer = Ok(to_raw_value(&"x".repeat(600)).unwrap());
        keys_with(&mut keys, "e", &huge);
        assert_eq!((keys.entries.len(), keys.bytes), (0, 0));
    }
}

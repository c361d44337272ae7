//! Counting functions that crossed a boundary, both ways.
//!
//! The sender of a function keeps it until the receiver has released it as often as it was sent; the receiver counts what it
//! received, to release all of it when it needs the function no longer. Server, client and stdio host count by these two
//! tables. What belongs to a function, such as its schemas, is kept in its entry and so ends with it.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Functions that this side sent. Ids are never reused.
///
/// `I` tells whether two functions are the same; it is `()` where a function gets its id before it is sent
/// ([`add`](Self::add)), and the id alone tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de>, I: Deserialize<'de> + Ord + Clone"))]
#[serde(from = "StoredExports<P, I>")]
pub(crate) struct Exports<P, I = ()> {
    next_id: u64,
    functions_max: usize,
    entries: BTreeMap<u64, Export<P, I>>,
    /// Follows from the entries, and is not stored.
    #[serde(skip)]
    ids: BTreeMap<I, u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Export<P, I> {
    payload: P,
    identity: Option<I>,
    sent: u64,
}

#[derive(Deserialize)]
struct StoredExports<P, I> {
    next_id: u64,
    functions_max: usize,
    entries: BTreeMap<u64, Export<P, I>>,
}

impl<P, I: Ord + Clone> From<StoredExports<P, I>> for Exports<P, I> {
    fn from(stored: StoredExports<P, I>) -> Self {
        let StoredExports { next_id, functions_max, entries } = stored;
        let ids = entries.iter().filter_map(|(id, entry)| Some((entry.identity.clone()?, *id))).collect();
        Self { next_id, functions_max, entries, ids }
    }
}

impl<P, I: Ord + Clone> Exports<P, I> {
    /// Room for `functions_max` functions. The first id is 1.
    pub(crate) fn new(functions_max: usize) -> Self {
        Self { next_id: 1, functions_max, entries: BTreeMap::new(), ids: BTreeMap::new() }
    }

    /// Counts one sending. A function that is still held keeps its id, and `payload` is dropped; `None` when there are too
    /// many.
    pub(crate) fn export(&mut self, identity: I, payload: P) -> Option<u64> {
        if let Some(id) = self.ids.get(&identity) {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.sent += 1;
            }
            return Some(*id);
        }
        let id = self.insert(Export { payload, identity: Some(identity.clone()), sent: 1 })?;
        self.ids.insert(identity, id);
        Some(id)
    }

    /// Gives a function its id before it is sent; `None` when there are too many.
    pub(crate) fn add(&mut self, payload: P) -> Option<u64> {
        self.insert(Export { payload, identity: None, sent: 0 })
    }

    fn insert(&mut self, entry: Export<P, I>) -> Option<u64> {
        if self.entries.len() >= self.functions_max {
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.entries.insert(id, entry);
        Some(id)
    }

    /// Counts one sending of the function of that id, if there is one.
    pub(crate) fn count_sent(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.sent += 1;
        }
    }

    /// The function of that id.
    pub(crate) fn get(&self, id: u64) -> Option<&P> {
        self.entries.get(&id).map(|entry| &entry.payload)
    }

    /// The function of that id, to change what belongs to it.
    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut P> {
        self.entries.get_mut(&id).map(|entry| &mut entry.payload)
    }

    /// The function of that id, if the receiver has it.
    pub(crate) fn get_sent(&self, id: u64) -> Option<&P> {
        self.entries.get(&id).filter(|entry| entry.sent > 0).map(|entry| &entry.payload)
    }

    /// The receiver releases `count` sendings; returns the function when it holds none of them any more. One that was
    /// never sent stays.
    pub(crate) fn release(&mut self, id: u64, count: u64) -> Option<P> {
        let entry = self.entries.get_mut(&id).filter(|entry| entry.sent > 0)?;
        entry.sent = entry.sent.saturating_sub(count);
        if entry.sent > 0 { None } else { self.remove(id) }
    }

    /// The functions, by their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &P)> {
        self.entries.iter().map(|(id, entry)| (*id, &entry.payload))
    }

    /// Ends a function, however often it was sent.
    pub(crate) fn remove(&mut self, id: u64) -> Option<P> {
        let entry = self.entries.remove(&id)?;
        if let Some(identity) = &entry.identity {
            self.ids.remove(identity);
        }
        Some(entry.payload)
    }

    /// Ends all functions, and returns them in the order of their ids.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = P> + use<P, I> {
        self.ids.clear();
        std::mem::take(&mut self.entries).into_values().map(|entry| entry.payload)
    }

    /// The id of the next function.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Leaves out the ids below this one: another table has used them.
    pub(crate) fn skip_ids_below(&mut self, id: u64) {
        self.next_id = self.next_id.max(id);
    }

    /// How many functions there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Functions that this side received, by the name that their sender gave them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "K: Deserialize<'de> + Ord, P: Deserialize<'de>"))]
pub(crate) struct Imports<K: Ord, P = ()> {
    functions_max: usize,
    entries: BTreeMap<K, Import<P>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Import<P> {
    payload: P,
    received: u64,
}

impl<K: Ord, P> Imports<K, P> {
    /// Room for `functions_max` functions.
    pub(crate) fn new(functions_max: usize) -> Self {
        Self { functions_max, entries: BTreeMap::new() }
    }

    /// Whether a function could be received now.
    pub(crate) fn has_room_for<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.len() < self.functions_max || self.entries.contains_key(key)
    }

    /// Counts one receipt; `None` when there are too many functions.
    pub(crate) fn receive(&mut self, key: K) -> Option<&mut P>
    where
        P: Default,
    {
        if !self.has_room_for(&key) {
            return None;
        }
        let new = || Import { payload: P::default(), received: 0 };
        let entry = self.entries.entry(key).or_insert_with(new);
        entry.received += 1;
        Some(&mut entry.payload)
    }

    /// What belongs to a function.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&P>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|entry| &entry.payload)
    }

    /// What belongs to a function, to change it.
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut P>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|entry| &mut entry.payload)
    }

    /// What was received.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.keys()
    }

    /// What belongs to each function, to change it.
    pub(crate) fn payloads_mut(&mut self) -> impl Iterator<Item = &mut P> {
        self.entries.values_mut().map(|entry| &mut entry.payload)
    }

    /// Ends a function; returns how often it was received, which is what its sender is to hear.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<u64>
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key).map(|entry| entry.received)
    }

    /// Ends all functions; returns how often each was received.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (K, u64)> + use<K, P> {
        std::mem::take(&mut self.entries).into_iter().map(|(key, entry)| (key, entry.received))
    }

    /// How many functions there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests;

//! Documents that were read or written last. Many sessions that watch one document then read it once.

use std::collections::HashMap;

use super::super::names::Key;
use super::super::traverse::State;

/// Most documents that are kept of a space. Above it all are forgotten: what is in use comes back at once.
pub(super) const CACHED_MAX: usize = 4096;

/// Most values (numbers, strings, members) in the documents that are kept, about 64 bytes each.
pub(super) const CACHED_VALUES_MAX: usize = 200_000;

#[derive(Default)]
pub(super) struct Cache {
    states: HashMap<Key, State>,
    values: usize,
}

impl Cache {
    pub(super) fn get(&self, key: &Key) -> Option<State> {
        self.states.get(key).cloned()
    }

    pub(super) fn put(&mut self, key: Key, state: State) {
        let weight = weight(&state);
        if weight > CACHED_VALUES_MAX {
            self.values -= self.states.remove(&key).as_ref().map_or(0, self::weight);
            return;
        }
        if self.states.len() >= CACHED_MAX || self.values + weight > CACHED_VALUES_MAX {
            self.states.clear();
            self.values = 0;
        }
        self.values += weight;
        self.values -= self.states.insert(key, state).as_ref().map_or(0, self::weight);
    }
}

fn weight(state: &State) -> usize {
    state.document.as_ref().map_or(0, |document| document.weight())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::codec::Data;
    use super::*;

    fn key(number: usize) -> Key {
        Key { id: number.to_string(), scope_key: "space".to_owned() }
    }

    fn list_of(values: usize) -> State {
        State { seq: 1, document: Some(Arc::new(Data::List(vec![Data::Null; values - 1]))) }
    }

    #[test]
    fn as_many_documents_are_kept_as_there_is_room_for() {
        let mut cache = Cache::default();
        (0..CACHED_MAX).for_each(|number| cache.put(key(number), State::default()));
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(CACHED_MAX), State::default());
        assert!(cache.get(&key(0)).is_none() && cache.get(&key(CACHED_MAX)).is_some());
    }

    #[test]
    fn large_documents_take_more_room_and_the_largest_none() {
        let mut cache = Cache::default();
        cache.put(key(0), list_of(CACHED_VALUES_MAX / 2));
        cache.put(key(1), list_of(CACHED_VALUES_MAX / 2));
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(2), list_of(1));
        assert!(cache.get(&key(0)).is_none() && cache.get(&key(2)).is_some());
        cache.put(key(2), list_of(CACHED_VALUES_MAX + 1));
        assert!(cache.get(&key(2)).is_none(), "an old version would be stale");
    }
}

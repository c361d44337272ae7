//! Cache of recently read or written documents, so that many sessions that watch a document load it
//! once.

use std::collections::HashMap;

use super::super::names::DocumentKey;
use super::super::traverse::DocumentState;

/// Most cached documents of a space. Beyond it the cache is cleared; documents in use are soon
/// cached again.
pub(super) const CACHED_MAX: usize = 4096;

/// Most values (numbers, strings, members) in cached documents, about 64 bytes each.
pub(super) const CACHED_VALUES_MAX: usize = 200_000;

#[derive(Default)]
pub(super) struct Cache {
    states: HashMap<DocumentKey, DocumentState>,
    values: usize,
}

impl Cache {
    pub(super) fn get(&self, key: &DocumentKey) -> Option<DocumentState> {
        self.states.get(key).cloned()
    }

    pub(super) fn put(&mut self, key: DocumentKey, state: DocumentState) {
        let size = estimate_size(&state);
        if size > CACHED_VALUES_MAX {
            self.values -= self.states.remove(&key).as_ref().map_or(0, estimate_size);
            return;
        }
        if self.states.len() >= CACHED_MAX || self.values + size > CACHED_VALUES_MAX {
            self.states.clear();
            self.values = 0;
        }
        self.values += size;
        self.values -= self.states.insert(key, state).as_ref().map_or(0, estimate_size);
    }
}

fn estimate_size(state: &DocumentState) -> usize {
    state.document.as_ref().map_or(0, |document| document.estimate_size())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::codec::Data;
    use super::*;

    fn key(number: usize) -> DocumentKey {
        DocumentKey { id: number.to_string(), scope_key: "space".to_owned() }
    }

    fn list_of(values: usize) -> DocumentState {
        DocumentState { seq: 1, document: Some(Arc::new(Data::List(vec![Data::Null; values - 1]))) }
    }

    #[test]
    fn cache_is_cleared_past_the_document_limit() {
        let mut cache = Cache::default();
        (0..CACHED_MAX).for_each(|number| cache.put(key(number), DocumentState::default()));
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(CACHED_MAX), DocumentState::default());
        assert!(cache.get(&key(0)).is_none() && cache.get(&key(CACHED_MAX)).is_some());
    }

    #[test]
    fn cache_is_cleared_past_the_value_limit() {
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

//! How queries and watches read a space.

use std::collections::BTreeMap;

use super::super::names::{Entity, Owner};
use super::super::store::Store;
use super::super::traverse::{Documents, State, TraverseError};

/// The documents of a space as one session sees them, each read once.
pub(super) struct Reader<'a> {
    store: &'a mut Store,
    identity: &'a Owner,
    at_seq: Option<u64>,
    loaded: BTreeMap<Entity, State>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(store: &'a mut Store, identity: &'a Owner, at_seq: Option<u64>) -> Self {
        Self { store, identity, at_seq, loaded: BTreeMap::new() }
    }
}

impl Documents for Reader<'_> {
    fn is_named(&self, entity: &Entity) -> bool {
        self.identity.key(entity).is_some()
    }

    fn load(&mut self, entity: &Entity) -> Result<State, TraverseError> {
        if let Some(state) = self.loaded.get(entity) {
            return Ok(state.clone());
        }
        // A scope that this session has nothing in is empty.
        let state = match (self.identity.key(entity), self.at_seq) {
            (None, _) => Ok(State::default()),
            (Some(key), Some(seq)) => self.store.state_at(&key, seq),
            (Some(key), None) => self.store.state(&key),
        };
        let state = state.map_err(|error| TraverseError::Store(error.to_string()))?;
        self.loaded.insert(entity.clone(), state.clone());
        Ok(state)
    }
}

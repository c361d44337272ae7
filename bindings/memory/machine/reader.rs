//! The documents of a space as queries and watches read them.

use std::collections::BTreeMap;

use super::super::names::{Entity, SessionIdentity};
use super::super::store::Store;
use super::super::traverse::{DocumentSource, DocumentState, TraverseError};

/// Loads the documents that a session can name, each once.
pub(super) struct Reader<'a> {
    store: &'a mut Store,
    identity: &'a SessionIdentity,
    at_seq: Option<u64>,
    loaded: BTreeMap<Entity, DocumentState>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(store: &'a mut Store, identity: &'a SessionIdentity, at_seq: Option<u64>) -> Self {
        Self { store, identity, at_seq, loaded: BTreeMap::new() }
    }
}

impl DocumentSource for Reader<'_> {
    fn resolves(&self, entity: &Entity) -> bool {
        self.identity.document_key(entity).is_some()
    }

    fn load(&mut self, entity: &Entity) -> Result<DocumentState, TraverseError> {
        if let Some(state) = self.loaded.get(entity) {
            return Ok(state.clone());
        }
        // A scope that requires a principal is empty for a session without one.
        let state = match (self.identity.document_key(entity), self.at_seq) {
            (None, _) => Ok(DocumentState::default()),
            (Some(key), Some(seq)) => self.store.load_document_at(&key, seq),
            (Some(key), None) => self.store.load_document(&key),
        };
        let state = state.map_err(|error| TraverseError::Store(error.to_string()))?;
        self.loaded.insert(entity.clone(), state.clone());
        Ok(state)
    }
}

//! Blobs: documents that are read and written over HTTP, without a session.

use std::time::Instant;

use super::super::codec::Data;
use super::super::commit::Commit;
use super::super::names::{DocumentKey, SessionIdentity};
use super::super::traverse::DocumentState;
use super::super::wire::WireError;
use super::{OutgoingMessages, Space, to_wire_error};

impl Space {
    /// Stores a blob, unless it exists: its id determines its content.
    pub(in super::super) fn put_blob(
        &mut self,
        id: &str,
        document: Data,
        principal: Option<&str>,
        now: Instant,
        outgoing: &mut OutgoingMessages,
    ) -> Result<u64, WireError> {
        if !self.access.may_write(&self.owner, principal) {
            return Err(WireError::new("AuthorizationError", "this identity may not write to the space"));
        }
        let state = self.load_blob(id)?;
        if state.document.is_some() {
            return Ok(state.seq);
        }
        let commit = Commit::for_blob(id, document, self.store.seq());
        // A `localSeq` is unique within a session, so each blob gets a session id of its own.
        let identity =
            SessionIdentity { principal: principal.map(str::to_owned), session_id: format!("blob:{id}") };
        let receipt = self.store.commit(&identity, &commit).map_err(|error| to_wire_error(&error))?;
        for revision in receipt.revisions {
            self.changed.insert(revision.key, (String::new(), receipt.seq));
        }
        self.schedule_flush(now);
        self.claim_ownership(principal, outgoing);
        Ok(receipt.seq)
    }

    pub(in super::super) fn get_blob(
        &mut self,
        id: &str,
        principal: Option<&str>,
    ) -> Result<DocumentState, WireError> {
        if !self.access.may_read(&self.owner, principal) {
            return Err(WireError::new("AuthorizationError", "this identity may not read the space"));
        }
        self.load_blob(id)
    }

    fn load_blob(&mut self, id: &str) -> Result<DocumentState, WireError> {
        let key = DocumentKey { id: id.to_owned(), scope_key: "space".to_owned() };
        self.store.load_document(&key).map_err(|error| to_wire_error(&error))
    }
}

//! What sessions have in common and in parts: the memory of all of them, and the places of detached ones.

use serde_json::Value;

use super::{Directory, busy};
use crate::observe;
use crate::protocol::shape::tree_bytes;
use crate::rpc::ErrorObject;
use crate::runtime::{Claim, MemoryTotal};

/// Declarations up to here are not counted as memory of a session: those of a hundred ordinary tools.
const DECLARED_UNCOUNTED_BYTES_MAX: usize = 256 << 10;

impl Directory {
    /// Divides what there is one of among that many principals.
    #[must_use]
    pub(crate) fn shared_by(mut self, principals: usize) -> Self {
        let detached_max = self.settings.detached_max;
        // Each may keep one, however many they are, unless none are to be kept.
        self.detached_share = (detached_max / principals.max(1)).max(detached_max.min(1));
        self
    }

    /// The memory of its sessions.
    pub(crate) fn memory(&self) -> &MemoryTotal {
        &self.memory
    }

    /// Declarations are kept as long as their connection, so large ones count as memory of its session.
    pub(super) fn claim_declarations(&self, declared: &[Value]) -> Result<Option<Claim>, ErrorObject> {
        let bytes = declared.iter().map(tree_bytes).sum();
        if bytes <= DECLARED_UNCOUNTED_BYTES_MAX {
            return Ok(None);
        }
        match Claim::new(&self.memory, bytes) {
            Some(claim) => Ok(Some(claim)),
            None => Err(self.out_of_memory()),
        }
    }

    pub(super) fn out_of_memory(&self) -> ErrorObject {
        observe::record_refusal("server-memory");
        busy("the memory for sessions is used up")
    }
}

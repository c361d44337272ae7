//! Memory for the schemas of one client.
//!
//! A client's schemas are not trusted and stay compiled as long as its connection does, so their total is bounded
//! before any of them is compiled: each is charged an upper estimate, which is released when it is dropped. The budget belongs to a connection; a resumed session starts with the one of its new connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::Value;

/// What an object or an array of the document costs: the node that it is compiled to, or up to three copies of it.
/// Measured: 550 to 1,200 bytes.
const CONTAINER_BYTES: usize = 1_024;

/// What a scalar of the document costs with the member that holds it. Measured: up to 180 bytes.
const SCALAR_BYTES: usize = 160;

/// How often a text of the document is kept: in the document, in the validator, and in the validator's messages.
const TEXT_COPIES: usize = 3;

/// The bytes of compiled schemas that one client may have at a time. Clones share it.
#[derive(Debug, Clone)]
pub struct SchemaBudget {
    used: Arc<AtomicUsize>,
    bytes_max: usize,
    survey_steps: Arc<AtomicU64>,
}

impl SchemaBudget {
    /// A budget of which nothing is used.
    pub fn new(bytes_max: usize) -> Self {
        Self { used: Arc::default(), bytes_max, survey_steps: Arc::default() }
    }

    /// Bytes of the schemas that are charged to it now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The most that it allows.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Steps that were spent on surveys of the schemas charged to it, since the beginning.
    pub fn survey_steps(&self) -> u64 {
        self.survey_steps.load(Ordering::Relaxed)
    }

    pub(super) fn add_survey_steps(&self, steps: u64) {
        self.survey_steps.fetch_add(steps, Ordering::Relaxed);
    }

    /// Charges that many bytes until the charge is dropped; `None` if fewer are left.
    pub(super) fn charge(&self, bytes: usize) -> Option<SchemaCharge> {
        let added = |used: usize| used.checked_add(bytes).filter(|total| *total <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).ok()?;
        Some(SchemaCharge { used: Arc::clone(&self.used), bytes })
    }
}

/// The bytes of one schema, released when it is dropped.
#[derive(Debug)]
pub(super) struct SchemaCharge {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for SchemaCharge {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a document takes when it is compiled, its patterns and what is repeated for `unevaluated…` aside.
pub(super) fn document_bytes(document: &Value) -> usize {
    let mut bytes = 0_usize;
    let mut pending = vec![document];
    while let Some(value) = pending.pop() {
        bytes = bytes.saturating_add(match value {
            Value::Object(members) => {
                pending.extend(members.values());
                CONTAINER_BYTES + members.keys().map(|key| key.len() * TEXT_COPIES).sum::<usize>()
            }
            Value::Array(items) => {
                pending.extend(items);
                CONTAINER_BYTES
            }
            Value::String(text) => SCALAR_BYTES + text.len() * TEXT_COPIES,
            Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR_BYTES,
        });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn charge_is_released_when_dropped() {
        let budget = SchemaBudget::new(100);
        let charge = budget.charge(100).unwrap();
        assert!(budget.charge(1).is_none());
        assert_eq!(budget.clone().used(), 100);
        drop(charge);
        assert_eq!(budget.used(), 0);
        assert!(budget.charge(101).is_none());
        assert!(budget.charge(usize::MAX).is_none());
    }

    #[test]
    fn document_bytes_grow_with_texts_and_values() {
        assert_eq!(document_bytes(&json!(true)), SCALAR_BYTES);
        let text = "x".repeat(1000);
        assert!(document_bytes(&json!({ "enum": [text] })) >= 3000 + 2 * CONTAINER_BYTES);
    }
}

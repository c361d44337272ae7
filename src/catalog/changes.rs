//! What is different between two versions of a server's catalog, for a client that wants to know.

use std::sync::Arc;

use serde::Serialize;

use super::{Catalog, CatalogEntry};
use crate::protocol::names::NameSet;

/// The names of the bindings that a newer catalog added, changed and removed: the input of `bindings.changed`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CatalogChanges {
    /// The version of the newer catalog.
    pub version: u64,
    /// Bindings that only the newer catalog has.
    pub added: Vec<String>,
    /// Bindings of both whose declaration or time limit differs.
    pub changed: Vec<String>,
    /// Bindings that only the older catalog has.
    pub removed: Vec<String>,
}

impl CatalogChanges {
    /// Compares two catalogs of one server, of which a client with the bindings `hidden_by` sees those that do not have
    /// one of its own names.
    pub(crate) fn between(older: &Catalog, newer: &Catalog, hidden_by: &NameSet) -> Self {
        let is_visible = |entry: &&Arc<CatalogEntry>| hidden_by.conflict(entry.name()).is_none();
        let name = |entry: &Arc<CatalogEntry>| entry.name().to_owned();
        let mut changes = Self { version: newer.version(), ..Self::default() };
        for entry in newer.iter().filter(is_visible) {
            match older.get(entry.name()) {
                None => changes.added.push(name(entry)),
                Some(before) if is_same(before, entry) => {}
                Some(_) => changes.changed.push(name(entry)),
            }
        }
        let is_gone = |entry: &&Arc<CatalogEntry>| !newer.contains(entry.name());
        changes.removed = older.iter().filter(is_gone).filter(is_visible).map(name).collect();
        changes
    }

    /// Whether the two catalogs look the same.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Whether a binding did not change. Versions share such entries, unless one of the catalogs was written and read in
/// between.
fn is_same(before: &Arc<CatalogEntry>, now: &Arc<CatalogEntry>) -> bool {
    Arc::ptr_eq(before, now) || (before.declaration == now.declaration && before.timeout == now.timeout)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::catalog;
    use super::*;

    /// The catalog in which one binding has another description or time limit.
    fn with_change(catalog: &Catalog, name: &str, field: &str, value: serde_json::Value) -> Catalog {
        let mut text = serde_json::to_value(catalog).unwrap();
        for entry in text["entries"].as_array_mut().unwrap() {
            if entry["declaration"]["name"] == name {
                *entry.pointer_mut(field).unwrap() = value.clone();
            }
        }
        serde_json::from_value(text).unwrap()
    }

    fn described(catalog: &Catalog, name: &str) -> Catalog {
        let declaration = json!({"name": name, "description": "another"});
        with_change(catalog, name, "/declaration", declaration)
    }

    #[test]
    fn changes_list_what_is_added_changed_and_removed() {
        let (older, newer) = (catalog(1, &[(0, "a"), (1, "b")]), catalog(2, &[(1, "b"), (2, "c")]));
        let changes = CatalogChanges::between(&older, &described(&newer, "b"), &NameSet::default());
        let text = serde_json::to_string(&changes).unwrap();
        assert_eq!(text, r#"{"version":2,"added":["c"],"changed":["b"],"removed":["a"]}"#);
        assert!(CatalogChanges::between(&older, &older, &NameSet::default()).is_empty());
    }

    #[test]
    fn catalog_written_and_read_in_between_has_no_changes() {
        let older = catalog(1, &[(0, "a"), (1, "b")]);
        let newer: Catalog = serde_json::from_value(serde_json::to_value(&older).unwrap()).unwrap();
        assert!(CatalogChanges::between(&older, &newer, &NameSet::default()).is_empty());
        let slower = with_change(&newer, "b", "/timeout", json!({"secs": 5, "nanos": 0}));
        let changes = CatalogChanges::between(&older, &slower, &NameSet::default());
        assert_eq!(changes.changed, ["b"]);
    }

    #[test]
    fn bindings_hidden_by_the_clients_own_are_left_out() {
        let (older, newer) = (catalog(1, &[(0, "a")]), catalog(2, &[(0, "a"), (1, "b.c"), (2, "d")]));
        let mut own = NameSet::default();
        own.insert("b").unwrap();
        let changes = CatalogChanges::between(&older, &described(&newer, "a"), &own);
        assert_eq!((changes.added, changes.changed), (vec!["d".to_owned()], vec!["a".to_owned()]));
    }
}

//! The watches of a session, the documents they reach, and the versions that the client has.
//!
//! A document that the watches no longer reach is still tracked until they are replaced, as the
//! client still has it. Only the versions of documents are kept here, not their contents.

use std::collections::{BTreeMap, BTreeSet};

use super::codec::Data;
use super::names::{Entity, ID_BYTES_MAX};
use super::traverse::{DocumentSource, DocumentState, Graph, TraverseError};
use super::wire::{Query, Root, Sync, WATCHES_MAX, WireError};

/// The version of a document that was last sent to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SentVersion {
    seq: u64,
    is_deleted: bool,
}

#[derive(Debug, Default)]
pub(super) struct WatchSet {
    /// By id: the definition in canonical form, and its roots.
    watches: BTreeMap<String, (String, Vec<Root>)>,
    graph: Graph,
    sent: BTreeMap<Entity, SentVersion>,
}

/// Whether the session itself wrote a version of a document.
pub(super) type IsOwnWrite<'a> = &'a dyn Fn(&Entity, u64) -> bool;

impl WatchSet {
    /// The documents whose changes are sent.
    pub(super) fn tracked(&self) -> impl Iterator<Item = &Entity> {
        self.graph.tracked().keys()
    }

    pub(super) fn tracks(&self, entity: &Entity) -> bool {
        self.graph.tracked().contains_key(entity)
    }

    /// The documents that became tracked since the last call.
    pub(super) fn take_added(&mut self) -> Vec<Entity> {
        self.graph.take_added()
    }

    /// Replaces all watches. The sync contains every document that they reach.
    pub(super) fn set<D: DocumentSource>(
        &mut self,
        space: &str,
        documents: &mut D,
        watches: &[Data],
    ) -> Result<Sync, WireError> {
        let mut next = Self::default();
        for watch in watches {
            let (id, definition, roots) = parse_watch(watch)?;
            next.watches.insert(id, (definition, roots));
        }
        next.evaluate(space, documents)?;
        let all: BTreeSet<Entity> = next.tracked().cloned().collect();
        let upserts = next.collect_changes(documents, all, &|_, _| false).map_err(to_wire_error)?.upserts;
        let removes = self.sent.keys().filter(|entity| !next.sent.contains_key(*entity)).cloned().collect();
        *self = next;
        Ok(Sync { upserts, removes, ..Sync::default() })
    }

    /// Adds watches. The sync contains the documents whose current version the client does not
    /// have.
    pub(super) fn add<D: DocumentSource>(
        &mut self,
        space: &str,
        documents: &mut D,
        watches: &[Data],
    ) -> Result<Sync, WireError> {
        let mut added = BTreeMap::new();
        for watch in watches {
            let (id, definition, roots) = parse_watch(watch)?;
            let known = self.watches.get(&id).or_else(|| added.get(&id)).map(|(known, _)| known);
            match known {
                Some(known) if *known == definition => {}
                Some(_) => {
                    let message = format!("watch {id:?} already exists with another definition");
                    return Err(WireError::new("ProtocolError", message));
                }
                None => {
                    added.insert(id, (definition, roots));
                }
            }
        }
        if self.watches.len() + added.len() > WATCHES_MAX {
            return Err(WireError::new(
                "ProtocolError",
                format!("watches: expected at most {WATCHES_MAX} per session"),
            ));
        }
        match self.add_roots(space, documents, added.values().flat_map(|(_, roots)| roots)) {
            Ok(reached) => {
                self.watches.extend(added);
                self.collect_changes(documents, reached, &|_, _| false).map_err(to_wire_error)
            }
            Err(error) => {
                // The traversal may be incomplete, so the graph is rebuilt from the previous
                // watches, which succeeded before.
                self.graph = Graph::default();
                self.evaluate(space, documents)?;
                Err(error)
            }
        }
    }

    /// Walks changed documents again and returns the changes, except those that the session wrote.
    pub(super) fn refresh<D: DocumentSource>(
        &mut self,
        space: &str,
        documents: &mut D,
        changed: BTreeSet<Entity>,
        is_own_write: IsOwnWrite<'_>,
    ) -> Result<Sync, TraverseError> {
        let reached = self.graph.refresh(space, documents, changed)?;
        self.collect_changes(documents, reached, is_own_write)
    }

    fn evaluate<D: DocumentSource>(&mut self, space: &str, documents: &mut D) -> Result<(), WireError> {
        let watches = std::mem::take(&mut self.watches);
        let evaluated = self.add_roots(space, documents, watches.values().flat_map(|(_, roots)| roots));
        self.watches = watches;
        evaluated.map(drop)
    }

    fn add_roots<'a, D: DocumentSource>(
        &mut self,
        space: &str,
        documents: &mut D,
        roots: impl Iterator<Item = &'a Root>,
    ) -> Result<BTreeSet<Entity>, WireError> {
        let roots = roots.map(|root| (&root.entity, &root.path, root.schema.as_ref()));
        self.graph.add_roots(space, documents, roots).map_err(to_wire_error)
    }

    /// Records the current versions of documents and returns those that changed.
    fn collect_changes<D: DocumentSource>(
        &mut self,
        documents: &mut D,
        candidates: BTreeSet<Entity>,
        is_own_write: IsOwnWrite<'_>,
    ) -> Result<Sync, TraverseError> {
        let mut sync = Sync::default();
        for entity in candidates {
            let state = documents.load(&entity)?;
            let is_root = self.graph.tracked().get(&entity).is_some_and(|tracked| tracked.is_root);
            let was_sent = self.sent.contains_key(&entity);
            if state.document.is_none() && !is_root && !was_sent {
                continue;
            }
            let sent = SentVersion { seq: state.seq, is_deleted: state.document.is_none() };
            let before = self.sent.insert(entity.clone(), sent);
            if before != Some(sent) && !is_own_write(&entity, state.seq) {
                sync.upserts.push((entity, state));
            }
        }
        Ok(sync)
    }
}

/// The documents that a query reaches.
pub(super) fn run_query<D: DocumentSource>(
    space: &str,
    documents: &mut D,
    query: &Query,
) -> Result<Vec<(Entity, DocumentState)>, WireError> {
    let mut graph = Graph::default();
    let roots = query.roots.iter().map(|root| (&root.entity, &root.path, root.schema.as_ref()));
    graph.add_roots(space, documents, roots).map_err(to_wire_error)?;
    let mut found = Vec::new();
    for (entity, tracked) in graph.tracked() {
        let state = documents.load(entity).map_err(to_wire_error)?;
        if tracked.is_root || state.document.is_some() {
            found.push((entity.clone(), state));
        }
    }
    Ok(found)
}

fn to_wire_error(error: TraverseError) -> WireError {
    let name = match error {
        TraverseError::PrincipalRequired(_) => "ProtocolError",
        TraverseError::Schema(_)
        | TraverseError::TooManySteps
        | TraverseError::TooManyDocuments
        | TraverseError::Store(_) => "QueryError",
    };
    WireError::new(name, error.to_string())
}

fn parse_watch(data: &Data) -> Result<(String, String, Vec<Root>), WireError> {
    let invalid = |field: &str, expected: &str| {
        WireError::new("ProtocolError", format!("watch.{field}: expected {expected}"))
    };
    let id = data.get("id").and_then(Data::as_str).filter(|id| id.len() <= ID_BYTES_MAX);
    let id =
        id.ok_or_else(|| invalid("id", &format!("a string of at most {ID_BYTES_MAX} bytes")))?.to_owned();
    if !matches!(data.get("kind").and_then(Data::as_str), Some("graph" | "query")) {
        return Err(invalid("kind", "\"graph\" or \"query\""));
    }
    let query = Query::parse(data.get("query").ok_or_else(|| invalid("query", "an object"))?)?;
    Ok((id, data.to_canonical_json(), query.roots))
}

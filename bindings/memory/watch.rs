//! What a session wants to be kept up to date with, and what it has been told of that.
//!
//! Nothing is forgotten while the watches stay: a document that is no longer reached is still told of, as the client
//! still has it. Documents themselves are not kept here, only their numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::codec::Data;
use super::names::{Entity, ID_BYTES_MAX};
use super::traverse::{Documents, Graph, State, TraverseError};
use super::wire::{Query, Root, Sync, WATCHES_MAX, WireError};

/// The version of a document that a session was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    seq: u64,
    is_deleted: bool,
}

/// The watches of a session and what came of them.
#[derive(Debug, Default)]
pub(super) struct Interest {
    /// By id: the definition in its canonical form, and its roots.
    watches: BTreeMap<String, (String, Vec<Root>)>,
    graph: Graph,
    sent: BTreeMap<Entity, Sent>,
}

/// Whether a version of a document came from the session itself.
pub(super) type IsOwn<'a> = &'a dyn Fn(&Entity, u64) -> bool;

impl Interest {
    /// The documents whose changes matter.
    pub(super) fn tracked(&self) -> impl Iterator<Item = &Entity> {
        self.graph.tracked().keys()
    }

    pub(super) fn tracks(&self, entity: &Entity) -> bool {
        self.graph.tracked().contains_key(entity)
    }

    /// The documents that came to matter since the last time this was asked.
    pub(super) fn take_new(&mut self) -> Vec<Entity> {
        self.graph.take_new()
    }

    /// Replaces all watches. The sync has every document that they reach.
    pub(super) fn set<D: Documents>(
        &mut self,
        space: &str,
        documents: &mut D,
        watches: &[Data],
    ) -> Result<Sync, WireError> {
        let mut next = Self::default();
        for watch in watches {
            let (id, definition, roots) = read_watch(watch)?;
            next.watches.insert(id, (definition, roots));
        }
        next.evaluate(space, documents)?;
        let all: BTreeSet<Entity> = next.tracked().cloned().collect();
        let upserts = next.news(documents, all, &|_, _| false).map_err(query_error)?.upserts;
        let removes = self.sent.keys().filter(|entity| !next.sent.contains_key(*entity)).cloned().collect();
        *self = next;
        Ok(Sync { upserts, removes, ..Sync::default() })
    }

    /// Adds watches. The sync has the documents that the session was not told in their present version.
    pub(super) fn add<D: Documents>(
        &mut self,
        space: &str,
        documents: &mut D,
        watches: &[Data],
    ) -> Result<Sync, WireError> {
        let mut added = BTreeMap::new();
        for watch in watches {
            let (id, definition, roots) = read_watch(watch)?;
            let known = self.watches.get(&id).or_else(|| added.get(&id)).map(|(known, _)| known);
            match known {
                Some(known) if *known == definition => {}
                Some(_) => {
                    let message = format!("watch {id} exists with another definition");
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
                format!("a session has at most {WATCHES_MAX} watches"),
            ));
        }
        match self.reach(space, documents, added.values().flat_map(|(_, roots)| roots)) {
            Ok(reached) => {
                self.watches.extend(added);
                self.news(documents, reached, &|_, _| false).map_err(query_error)
            }
            Err(error) => {
                // Half of it may have been walked. What was watched before is walked again, which it once could be.
                self.graph = Graph::default();
                self.evaluate(space, documents)?;
                Err(error)
            }
        }
    }

    /// Walks changed documents again and tells what is new, except what the session wrote itself.
    pub(super) fn refresh<D: Documents>(
        &mut self,
        space: &str,
        documents: &mut D,
        changed: BTreeSet<Entity>,
        is_own: IsOwn<'_>,
    ) -> Result<Sync, TraverseError> {
        let reached = self.graph.refresh(space, documents, changed)?;
        self.news(documents, reached, is_own)
    }

    fn evaluate<D: Documents>(&mut self, space: &str, documents: &mut D) -> Result<(), WireError> {
        let watches = std::mem::take(&mut self.watches);
        let evaluated = self.reach(space, documents, watches.values().flat_map(|(_, roots)| roots));
        self.watches = watches;
        evaluated.map(drop)
    }

    fn reach<'a, D: Documents>(
        &mut self,
        space: &str,
        documents: &mut D,
        roots: impl Iterator<Item = &'a Root>,
    ) -> Result<BTreeSet<Entity>, WireError> {
        let roots = roots.map(|root| (&root.entity, &root.path, root.schema.as_ref()));
        self.graph.add_roots(space, documents, roots).map_err(query_error)
    }

    /// Notes the present version of documents, and tells those that changed.
    fn news<D: Documents>(
        &mut self,
        documents: &mut D,
        candidates: BTreeSet<Entity>,
        is_own: IsOwn<'_>,
    ) -> Result<Sync, TraverseError> {
        let mut sync = Sync::default();
        for entity in candidates {
            let state = documents.load(&entity)?;
            let is_root = self.graph.tracked().get(&entity).is_some_and(|tracked| tracked.is_root);
            let was_sent = self.sent.contains_key(&entity);
            if state.document.is_none() && !is_root && !was_sent {
                continue;
            }
            let sent = Sent { seq: state.seq, is_deleted: state.document.is_none() };
            let before = self.sent.insert(entity.clone(), sent);
            if before != Some(sent) && !is_own(&entity, state.seq) {
                sync.upserts.push((entity, state));
            }
        }
        Ok(sync)
    }
}

/// The documents that a query finds, once.
pub(super) fn query<D: Documents>(
    space: &str,
    documents: &mut D,
    query: &Query,
) -> Result<Vec<(Entity, State)>, WireError> {
    let mut graph = Graph::default();
    let roots = query.roots.iter().map(|root| (&root.entity, &root.path, root.schema.as_ref()));
    graph.add_roots(space, documents, roots).map_err(query_error)?;
    let mut found = Vec::new();
    for (entity, tracked) in graph.tracked() {
        let state = documents.load(entity).map_err(query_error)?;
        if tracked.is_root || state.document.is_some() {
            found.push((entity.clone(), state));
        }
    }
    Ok(found)
}

fn query_error(error: TraverseError) -> WireError {
    let name = match error {
        TraverseError::NoPrincipal(_) => "ProtocolError",
        TraverseError::Schema(_)
        | TraverseError::TooLong
        | TraverseError::TooWide
        | TraverseError::Store(_) => "QueryError",
    };
    WireError::new(name, error.to_string())
}

fn read_watch(data: &Data) -> Result<(String, String, Vec<Root>), WireError> {
    let malformed = || WireError::new("ProtocolError", "malformed watch");
    let id = data.get("id").and_then(Data::as_str).filter(|id| id.len() <= ID_BYTES_MAX);
    let id = id.ok_or_else(malformed)?.to_owned();
    if !matches!(data.get("kind").and_then(Data::as_str), Some("graph" | "query")) {
        return Err(malformed());
    }
    let query = Query::read(data.get("query").ok_or_else(malformed)?)?;
    Ok((id, data.to_stored(), query.roots))
}

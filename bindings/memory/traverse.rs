//! Finds the documents that a selector reaches: walks values by their schema and follows the links
//! in them.
//!
//! Pending work is in a list, not on the stack, so a chain of ten thousand documents needs no deep
//! recursion. Visited entry points (document, path, schema) are recorded, which ends cycles, makes
//! overlapping selectors cheap, and allows a changed document to be walked again without its
//! neighbours: that is how watches are kept up to date.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::codec::Data;
use super::names::{Entity, Scope};
use super::path::{Path, parse_index};
use super::schema::{Conjunction, SchemaError, Schemas};

mod link;

use link::Link;

/// Most values and links visited by one query, or by one update of a session's watches.
/// Ten thousand documents of a hundred values fit; a hostile query fails within seconds.
pub(super) const STEPS_MAX: usize = 1_000_000;

/// Most documents reached by a query or by a session's watches.
pub(super) const TRACKED_MAX: usize = 50_000;

/// Most recorded entry points: a document may be reached with several paths and schemas.
pub(super) const ENTRIES_MAX: usize = 100_000;

/// Longest path of an entry point. A document that links into itself can extend a path without end.
pub(super) const PATH_STEPS_MAX: usize = 256;

/// Longest chain of links that is followed to find the type of a list item.
const LINK_CHAIN_MAX: usize = 16;

#[derive(Debug, thiserror::Error)]
pub(super) enum TraverseError {
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("query visits more than {STEPS_MAX} values")]
    TooManySteps,
    #[error("query reaches more than {TRACKED_MAX} documents or {ENTRIES_MAX} entry points")]
    TooManyDocuments,
    #[error("scope {0} requires a principal")]
    PrincipalRequired(&'static str),
    #[error("{0}")]
    Store(String),
}

/// A version of a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DocumentState {
    /// The commit that wrote it; 0 if the document was never written.
    pub(super) seq: u64,
    /// `None` if the document is absent or deleted.
    pub(super) document: Option<Arc<Data>>,
}

pub(super) trait DocumentSource {
    /// Whether the scope of the entity exists for this session.
    fn resolves(&self, entity: &Entity) -> bool;

    fn load(&mut self, entity: &Entity) -> Result<DocumentState, TraverseError>;
}

/// Where a traversal enters a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EntryPoint {
    path: Path,
    target: Target,
}

/// What is reached from an entry point.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Target {
    /// Only the document itself.
    Document,
    /// The value at the path and, if it is a link, its target; nothing below.
    Value,
    /// The value at the path, and everything below that the schema allows.
    Subtree(Conjunction),
}

/// A reached document.
#[derive(Debug, Clone, Default)]
pub(super) struct TrackedDocument {
    entries: BTreeSet<EntryPoint>,
    /// Named by the client, so it is reported even if the document does not exist.
    pub(super) is_root: bool,
}

/// The reached documents and their entry points.
#[derive(Debug, Default)]
pub(super) struct Graph {
    schemas: Schemas,
    tracked: BTreeMap<Entity, TrackedDocument>,
    entries: usize,
    /// Documents that became tracked since the last [`Graph::take_added`].
    added: Vec<Entity>,
}

struct Traversal<'a, D> {
    graph: &'a mut Graph,
    documents: &'a mut D,
    space: &'a str,
    pending: Vec<(Entity, EntryPoint)>,
    reached: BTreeSet<Entity>,
    walked_metadata: HashSet<Entity>,
    steps: usize,
}

impl Graph {
    pub(super) fn tracked(&self) -> &BTreeMap<Entity, TrackedDocument> {
        &self.tracked
    }

    pub(super) fn take_added(&mut self) -> Vec<Entity> {
        std::mem::take(&mut self.added)
    }

    fn track(&mut self, entity: &Entity) -> &mut TrackedDocument {
        if !self.tracked.contains_key(entity) {
            self.added.push(entity.clone());
        }
        self.tracked.entry(entity.clone()).or_default()
    }

    /// Adds roots and returns the newly reached documents. Known entry points are not walked again.
    pub(super) fn add_roots<'r, D: DocumentSource>(
        &mut self,
        space: &str,
        documents: &mut D,
        roots: impl IntoIterator<Item = (&'r Entity, &'r Path, Option<&'r Data>)>,
    ) -> Result<BTreeSet<Entity>, TraverseError> {
        let mut traversal = Traversal::new(self, space, documents);
        for (root, path, schema) in roots {
            if !traversal.documents.resolves(root) {
                return Err(TraverseError::PrincipalRequired(root.scope.name()));
            }
            let target = match schema {
                None | Some(Data::Bool(false)) => Target::Value,
                Some(schema) => Target::Subtree(traversal.graph.schemas.compile(schema)?),
            };
            traversal.graph.track(root).is_root = true;
            traversal.enter(root.clone(), EntryPoint { path: path.clone(), target })?;
            traversal.reached.insert(root.clone());
        }
        traversal.run()
    }

    /// Walks changed documents again, from all their entry points.
    pub(super) fn refresh<D: DocumentSource>(
        &mut self,
        space: &str,
        documents: &mut D,
        changed: impl IntoIterator<Item = Entity>,
    ) -> Result<BTreeSet<Entity>, TraverseError> {
        let mut traversal = Traversal::new(self, space, documents);
        for entity in changed {
            if let Some(tracked) = traversal.graph.tracked.get(&entity) {
                traversal.pending.extend(tracked.entries.iter().map(|entry| (entity.clone(), entry.clone())));
                traversal.reached.insert(entity);
            }
        }
        traversal.run()
    }
}

impl<'a, D: DocumentSource> Traversal<'a, D> {
    fn new(graph: &'a mut Graph, space: &'a str, documents: &'a mut D) -> Self {
        Self {
            graph,
            documents,
            space,
            pending: Vec::new(),
            reached: BTreeSet::new(),
            walked_metadata: HashSet::new(),
            steps: 0,
        }
    }

    fn run(mut self) -> Result<BTreeSet<Entity>, TraverseError> {
        while let Some((entity, entry)) = self.pending.pop() {
            self.count_step()?;
            let Some(document) = self.documents.load(&entity)?.document else { continue };
            self.walk_metadata(&entity, &document)?;
            if let Some(value) = document.get("value") {
                self.walk_path(&entity, value, &entry)?;
            }
        }
        Ok(self.reached)
    }

    fn count_step(&mut self) -> Result<(), TraverseError> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(TraverseError::TooManySteps) } else { Ok(()) }
    }

    /// Adds an entry point, unless it is known.
    fn enter(&mut self, entity: Entity, entry: EntryPoint) -> Result<(), TraverseError> {
        self.count_step()?;
        if entry.path.len() > PATH_STEPS_MAX {
            return Ok(());
        }
        let tracked = self.graph.track(&entity);
        if tracked.entries.insert(entry.clone()) {
            self.graph.entries += 1;
            if self.graph.tracked.len() > TRACKED_MAX || self.graph.entries > ENTRIES_MAX {
                return Err(TraverseError::TooManyDocuments);
            }
            self.reached.insert(entity.clone());
            self.pending.push((entity, entry));
        }
        Ok(())
    }

    /// Follows the path of an entry point, also through links on the way.
    fn walk_path(&mut self, entity: &Entity, value: &Data, entry: &EntryPoint) -> Result<(), TraverseError> {
        let mut node = value;
        for (position, step) in entry.path.iter().enumerate() {
            self.count_step()?;
            if let Some(link) = Link::parse(node) {
                let rest = entry.path.get(position..).unwrap_or_default();
                return self.follow_link(entity, &link, rest, &entry.target);
            }
            let child = match node {
                Data::Map(_) => node.get(step),
                Data::List(items) => parse_index(step).and_then(|index| items.get(index)),
                Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
            };
            let Some(child) = child else { return Ok(()) };
            node = child;
        }
        match (&entry.target, Link::parse(node)) {
            (Target::Document, _) | (Target::Value, None) => Ok(()),
            // A selected link is followed whatever the schema is.
            (Target::Value | Target::Subtree(_), Some(link)) => {
                self.follow_link(entity, &link, &[], &entry.target)
            }
            (Target::Subtree(schema), None) => {
                self.walk_value(entity, node, &BTreeSet::from([schema.clone()])).map(drop)
            }
        }
    }

    /// Walks a value by its schemas and returns whether its type matched. The recursion is as deep
    /// as the document.
    fn walk_value(
        &mut self,
        entity: &Entity,
        value: &Data,
        schemas: &BTreeSet<Conjunction>,
    ) -> Result<bool, TraverseError> {
        self.count_step()?;
        if let Some(link) = Link::parse(value) {
            for schema in schemas {
                if self.graph.schemas.is_satisfiable(schema)? {
                    self.follow_link(entity, &link, &[], &Target::Subtree(schema.clone()))?;
                }
            }
            return self.link_target_fits(entity, &link, schemas);
        }
        let alternatives = self.graph.schemas.apply(schemas, value)?;
        self.steps += alternatives.len();
        match value {
            _ if alternatives.is_empty() => return Ok(false),
            Data::Map(members) => {
                for (key, member) in members {
                    let child_schemas = self.graph.schemas.member_schemas(&alternatives, key);
                    self.steps += alternatives.len();
                    if !child_schemas.is_empty() {
                        self.walk_value(entity, member, &child_schemas)?;
                    }
                }
            }
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let child_schemas = self.graph.schemas.item_schemas(&alternatives, index);
                    self.steps += alternatives.len();
                    // Clients do not use the items after one of the wrong type.
                    if !child_schemas.is_empty() && !self.walk_value(entity, item, &child_schemas)? {
                        break;
                    }
                }
            }
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => {}
        }
        Ok(true)
    }

    fn follow_link(
        &mut self,
        from: &Entity,
        link: &Link,
        rest: &[String],
        wanted: &Target,
    ) -> Result<(), TraverseError> {
        let Some((entity, mut path)) = self.resolve_link(from, link) else { return Ok(()) };
        path.extend_from_slice(rest);
        let target = match (wanted, &link.schema) {
            // The link's schema describes its target; below the target only the selector's schema
            // applies.
            (Target::Subtree(schema), Some(link_schema)) if rest.is_empty() => {
                let mut combined = schema.clone();
                match self.graph.schemas.compile(link_schema) {
                    Ok(node_ids) => combined.extend(node_ids),
                    // An invalid schema in a document is not an error of the query.
                    Err(SchemaError::InvalidSchema) => {}
                    Err(error) => return Err(error.into()),
                }
                combined.sort_unstable();
                combined.dedup();
                Target::Subtree(combined)
            }
            (wanted, _) => wanted.clone(),
        };
        self.enter(entity, EntryPoint { path, target })
    }

    /// The target of a link, if it is in this space.
    fn resolve_link(&self, from: &Entity, link: &Link) -> Option<(Entity, Path)> {
        if link.space.as_deref().is_some_and(|space| space != self.space) {
            return None;
        }
        let entity = match &link.id {
            Some(id) => Entity::new(id.clone(), Scope::parse(link.scope.as_deref()).unwrap_or(Scope::Space)),
            None => from.clone(),
        };
        Some((entity, link.path.clone()))
    }

    /// Whether the type of a link's target matches one of the schemas; true if the type is unknown.
    fn link_target_fits(
        &mut self,
        from: &Entity,
        link: &Link,
        schemas: &BTreeSet<Conjunction>,
    ) -> Result<bool, TraverseError> {
        let Some((mut entity, mut path)) = self.resolve_link(from, link) else { return Ok(true) };
        for _ in 0..LINK_CHAIN_MAX {
            self.count_step()?;
            let state = self.documents.load(&entity)?;
            let Some(mut node) = state.document.as_deref().and_then(|document| document.get("value")) else {
                return Ok(true);
            };
            let mut steps = path.iter();
            let next = loop {
                if let Some(link) = Link::parse(node) {
                    break link;
                }
                let Some(step) = steps.next() else {
                    return Ok(!self.graph.schemas.apply(schemas, node)?.is_empty());
                };
                let Some(child) = node.get(step) else { return Ok(true) };
                node = child;
            };
            let rest: Path = steps.cloned().collect();
            let Some((target, start)) = self.resolve_link(&entity, &next) else { return Ok(true) };
            entity = target;
            path = [start, rest].concat();
        }
        Ok(true)
    }

    /// Follows the links to documents that describe this one, whatever the schema is.
    fn walk_metadata(&mut self, entity: &Entity, document: &Data) -> Result<(), TraverseError> {
        if !self.walked_metadata.insert(entity.clone()) {
            return Ok(());
        }
        let members = ["result", "pattern", "argument"].into_iter().filter_map(|member| document.get(member));
        let internal = document.get("internal").and_then(Data::as_list).unwrap_or_default();
        let internal = internal.iter().filter_map(|item| item.get("link"));
        for link in members.chain(internal).filter_map(Link::parse) {
            let link_to_document = Link { path: Path::new(), ..link };
            self.follow_link(entity, &link_to_document, &[], &Target::Document)?;
        }
        let hash = document.get("cfc").and_then(|cfc| cfc.get("schemaHash")).and_then(Data::as_str);
        if let Some(hash) = hash.filter(|hash| !hash.is_empty()) {
            let target = Entity::new(format!("cid:{hash}"), Scope::Space);
            self.enter(target, EntryPoint { path: Path::new(), target: Target::Document })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

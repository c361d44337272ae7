//! Which documents a selector reaches: it walks values by their schema and goes through the links in them.
//!
//! Work waits in a list, never on the stack, so a chain of ten thousand documents is as flat as one. What was visited
//! (document, place in it, schema) is remembered, which ends cycles, makes overlapping selectors cheap, and lets a
//! changed document be walked again without its neighbours: that is how watches are kept up to date.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::codec::Data;
use super::names::{Entity, Scope};
use super::path::{Path, index_of};
use super::schema::{Conjunction, SchemaError, Schemas};

mod link;

use link::Link;

/// Most values and links that one query, or one update of a session's watches, looks at.
/// Ten thousand documents of a hundred values are just within it; a hostile one ends here within seconds.
pub(super) const STEPS_MAX: usize = 1_000_000;

/// Most documents that a query or a session's watches reach.
pub(super) const TRACKED_MAX: usize = 50_000;

/// Most ways into documents that are remembered: a document may be reached by several schemas.
pub(super) const ENTRIES_MAX: usize = 100_000;

/// Longest way through a document and the links in it. A link into itself can make a way longer at each turn.
pub(super) const PATH_STEPS_MAX: usize = 256;

/// Most links in a row that are looked through to see what an item of a list is.
const HOPS_MAX: usize = 16;

/// Why a traversal ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum TraverseError {
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("the query looks at more than {STEPS_MAX} values")]
    TooLong,
    #[error("the query reaches more than {TRACKED_MAX} documents, or them in more than {ENTRIES_MAX} ways")]
    TooWide,
    #[error("scope {0} requires a principal")]
    NoPrincipal(&'static str),
    #[error("{0}")]
    Store(String),
}

/// A document as it stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    /// The commit that it is from; 0 if there never was one.
    pub(super) seq: u64,
    /// `None` if it is absent or deleted.
    pub(super) document: Option<Arc<Data>>,
}

/// Where documents come from.
pub(super) trait Documents {
    /// Whether there can be such a document for whoever asks.
    fn is_named(&self, entity: &Entity) -> bool;

    fn load(&mut self, entity: &Entity) -> Result<State, TraverseError>;
}

/// Where a traversal enters a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Entry {
    path: Path,
    target: Target,
}

/// What is wanted at the place where a document is entered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Target {
    /// The document, whatever is in it.
    Document,
    /// The value there. If that is a link, what it leads to; nothing below.
    Value,
    /// The value there, and what is below it by a schema.
    Below(Conjunction),
}

/// A document that was reached.
#[derive(Debug, Clone, Default)]
pub(super) struct Tracked {
    entries: BTreeSet<Entry>,
    /// Asked for by name, so told even if there is no such document.
    pub(super) is_root: bool,
}

/// All that was reached, and how.
#[derive(Debug, Default)]
pub(super) struct Graph {
    schemas: Schemas,
    tracked: BTreeMap<Entity, Tracked>,
    entries: usize,
    /// Documents that came to be tracked and were not asked for yet.
    new: Vec<Entity>,
}

struct Walk<'a, D> {
    graph: &'a mut Graph,
    documents: &'a mut D,
    space: &'a str,
    pending: Vec<(Entity, Entry)>,
    reached: BTreeSet<Entity>,
    walked_metadata: HashSet<Entity>,
    steps: usize,
}

impl Graph {
    pub(super) fn tracked(&self) -> &BTreeMap<Entity, Tracked> {
        &self.tracked
    }

    pub(super) fn take_new(&mut self) -> Vec<Entity> {
        std::mem::take(&mut self.new)
    }

    fn track(&mut self, entity: &Entity) -> &mut Tracked {
        if !self.tracked.contains_key(entity) {
            self.new.push(entity.clone());
        }
        self.tracked.entry(entity.clone()).or_default()
    }

    /// Starts at more roots. What is new is told; what was reached before is not walked again.
    pub(super) fn add_roots<'r, D: Documents>(
        &mut self,
        space: &str,
        documents: &mut D,
        roots: impl IntoIterator<Item = (&'r Entity, &'r Path, Option<&'r Data>)>,
    ) -> Result<BTreeSet<Entity>, TraverseError> {
        let mut walk = Walk::new(self, space, documents);
        for (root, path, schema) in roots {
            if !walk.documents.is_named(root) {
                return Err(TraverseError::NoPrincipal(root.scope.name()));
            }
            let target = match schema {
                None | Some(Data::Bool(false)) => Target::Value,
                Some(schema) => Target::Below(walk.graph.schemas.compile(schema)?),
            };
            walk.graph.track(root).is_root = true;
            walk.enter(root.clone(), Entry { path: path.clone(), target })?;
            walk.reached.insert(root.clone());
        }
        walk.run()
    }

    /// Walks documents again that have changed, from wherever they were entered.
    pub(super) fn refresh<D: Documents>(
        &mut self,
        space: &str,
        documents: &mut D,
        changed: impl IntoIterator<Item = Entity>,
    ) -> Result<BTreeSet<Entity>, TraverseError> {
        let mut walk = Walk::new(self, space, documents);
        for entity in changed {
            if let Some(tracked) = walk.graph.tracked.get(&entity) {
                walk.pending.extend(tracked.entries.iter().map(|entry| (entity.clone(), entry.clone())));
                walk.reached.insert(entity);
            }
        }
        walk.run()
    }
}

impl<'a, D: Documents> Walk<'a, D> {
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
            self.step()?;
            let Some(document) = self.documents.load(&entity)?.document else { continue };
            self.walk_metadata(&entity, &document)?;
            if let Some(value) = document.get("value") {
                self.walk_path(&entity, value, &entry)?;
            }
        }
        Ok(self.reached)
    }

    fn step(&mut self) -> Result<(), TraverseError> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(TraverseError::TooLong) } else { Ok(()) }
    }

    /// Enters a document, unless that was done before from the same place.
    fn enter(&mut self, entity: Entity, entry: Entry) -> Result<(), TraverseError> {
        self.step()?;
        if entry.path.len() > PATH_STEPS_MAX {
            return Ok(());
        }
        let tracked = self.graph.track(&entity);
        if tracked.entries.insert(entry.clone()) {
            self.graph.entries += 1;
            if self.graph.tracked.len() > TRACKED_MAX || self.graph.entries > ENTRIES_MAX {
                return Err(TraverseError::TooWide);
            }
            self.reached.insert(entity.clone());
            self.pending.push((entity, entry));
        }
        Ok(())
    }

    /// Follows the steps of a selector, through links where they stand in the way.
    fn walk_path(&mut self, entity: &Entity, value: &Data, entry: &Entry) -> Result<(), TraverseError> {
        let mut place = value;
        for (position, step) in entry.path.iter().enumerate() {
            self.step()?;
            if let Some(link) = Link::in_data(place) {
                let rest = entry.path.get(position..).unwrap_or_default();
                return self.follow(entity, &link, rest, &entry.target);
            }
            let below = match place {
                Data::Map(_) => place.get(step),
                Data::List(items) => index_of(step).and_then(|index| items.get(index)),
                Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
            };
            let Some(below) = below else { return Ok(()) };
            place = below;
        }
        match (&entry.target, Link::in_data(place)) {
            (Target::Document, _) | (Target::Value, None) => Ok(()),
            // What was selected is where the link leads, whatever the schema says of it.
            (Target::Value | Target::Below(_), Some(link)) => self.follow(entity, &link, &[], &entry.target),
            (Target::Below(schema), None) => {
                self.walk_value(entity, place, &BTreeSet::from([schema.clone()])).map(drop)
            }
        }
    }

    /// Walks a value by its schemas; says whether its type was right. As deep as documents are nested.
    fn walk_value(
        &mut self,
        entity: &Entity,
        value: &Data,
        schemas: &BTreeSet<Conjunction>,
    ) -> Result<bool, TraverseError> {
        self.step()?;
        if let Some(link) = Link::in_data(value) {
            for schema in schemas {
                if self.graph.schemas.is_open(schema)? {
                    self.follow(entity, &link, &[], &Target::Below(schema.clone()))?;
                }
            }
            return self.target_fits(entity, &link, schemas);
        }
        let alternatives = self.graph.schemas.apply(schemas, value)?;
        self.steps += alternatives.len();
        match value {
            _ if alternatives.is_empty() => return Ok(false),
            Data::Map(members) => {
                for (key, member) in members {
                    let below = self.graph.schemas.member(&alternatives, key);
                    self.steps += alternatives.len();
                    if !below.is_empty() {
                        self.walk_value(entity, member, &below)?;
                    }
                }
            }
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let below = self.graph.schemas.item(&alternatives, index);
                    self.steps += alternatives.len();
                    // An item of the wrong type makes what comes after it worthless to the client.
                    if !below.is_empty() && !self.walk_value(entity, item, &below)? {
                        break;
                    }
                }
            }
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => {}
        }
        Ok(true)
    }

    fn follow(
        &mut self,
        from: &Entity,
        link: &Link,
        rest: &[String],
        wanted: &Target,
    ) -> Result<(), TraverseError> {
        let Some((entity, mut path)) = self.target(from, link) else { return Ok(()) };
        path.extend_from_slice(rest);
        let target = match (wanted, &link.schema) {
            // The link's schema is about what it points at; with steps still to go, the selector knows better.
            (Target::Below(schema), Some(of_link)) if rest.is_empty() => {
                let mut both = schema.clone();
                match self.graph.schemas.compile(of_link) {
                    Ok(places) => both.extend(places),
                    // What a document says of itself is no fault of the one who asks.
                    Err(SchemaError::NotASchema) => {}
                    Err(error) => return Err(error.into()),
                }
                both.sort_unstable();
                both.dedup();
                Target::Below(both)
            }
            (wanted, _) => wanted.clone(),
        };
        self.enter(entity, Entry { path, target })
    }

    /// What a link points at, if that is in this space.
    fn target(&self, from: &Entity, link: &Link) -> Option<(Entity, Path)> {
        if link.space.as_deref().is_some_and(|space| space != self.space) {
            return None;
        }
        let entity = match &link.id {
            Some(id) => Entity::new(id.clone(), Scope::named(link.scope.as_deref()).unwrap_or(Scope::Space)),
            None => from.clone(),
        };
        Some((entity, link.path.clone()))
    }

    /// Whether what a link leads to has a type that one of the schemas allows; in doubt it has.
    fn target_fits(
        &mut self,
        from: &Entity,
        link: &Link,
        schemas: &BTreeSet<Conjunction>,
    ) -> Result<bool, TraverseError> {
        let Some((mut entity, mut path)) = self.target(from, link) else { return Ok(true) };
        for _ in 0..HOPS_MAX {
            self.step()?;
            let state = self.documents.load(&entity)?;
            let Some(mut place) = state.document.as_deref().and_then(|document| document.get("value")) else {
                return Ok(true);
            };
            let mut steps = path.iter();
            let next = loop {
                if let Some(link) = Link::in_data(place) {
                    break link;
                }
                let Some(step) = steps.next() else {
                    return Ok(!self.graph.schemas.apply(schemas, place)?.is_empty());
                };
                let Some(below) = place.get(step) else { return Ok(true) };
                place = below;
            };
            let rest: Path = steps.cloned().collect();
            let Some((target, start)) = self.target(&entity, &next) else { return Ok(true) };
            entity = target;
            path = [start, rest].concat();
        }
        Ok(true)
    }

    /// Documents that say what this one is: wanted with it, whatever the schema.
    fn walk_metadata(&mut self, entity: &Entity, document: &Data) -> Result<(), TraverseError> {
        if !self.walked_metadata.insert(entity.clone()) {
            return Ok(());
        }
        let members = ["result", "pattern", "argument"].into_iter().filter_map(|member| document.get(member));
        let internal = document.get("internal").and_then(Data::as_list).unwrap_or_default();
        let internal = internal.iter().filter_map(|item| item.get("link"));
        for link in members.chain(internal).filter_map(Link::in_data) {
            let whole = Link { path: Path::new(), ..link };
            self.follow(entity, &whole, &[], &Target::Document)?;
        }
        let hash = document.get("cfc").and_then(|cfc| cfc.get("schemaHash")).and_then(Data::as_str);
        if let Some(hash) = hash.filter(|hash| !hash.is_empty()) {
            let target = Entity::new(format!("cid:{hash}"), Scope::Space);
            self.enter(target, Entry { path: Path::new(), target: Target::Document })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

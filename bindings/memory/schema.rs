//! The schemas of selectors, compiled into a graph: what of a value is followed, and what below it.
//!
//! Compiled, a `$ref` is an edge, so a recursive schema is a cycle and not an endless tree, and a place in a schema is
//! a number, so that what was visited can be remembered. A value is looked at with a *conjunction* of places (all of
//! `allOf`, and what a link says beside what the query says); `anyOf` makes several of them. Where the meaning of a
//! schema is in doubt more is followed rather than less: the client then gets a document it did not need.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::codec::Data;
use super::path::from_pointer;

/// Most places of all the schemas of one query or one session's watches.
/// The schema of a large application has some thousands.
pub(super) const SCHEMA_NODES_MAX: usize = 100_000;

/// Most conjunctions that one place unfolds into: unions multiply, and a real one has some tens.
pub(super) const ALTERNATIVES_MAX: usize = 1_000;

/// The type of what is reached but not looked into.
const OPAQUE_TYPE: &str = "unknown";

/// Why a schema cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("a schema is an object or a boolean")]
    NotASchema,
    #[error("the schemas have more than {SCHEMA_NODES_MAX} parts")]
    TooLarge,
    #[error("the schema unfolds into more than {ALTERNATIVES_MAX} alternatives")]
    TooManyAlternatives,
}

/// A place in a compiled schema.
pub(super) type Place = u32;

/// Places that all apply to a value. None at all: everything is followed.
pub(super) type Conjunction = Vec<Place>;

/// What a place says of the values that it is about.
#[derive(Debug, Default)]
struct Node {
    verdict: Verdict,
    types: Option<Vec<String>>,
    properties: Option<BTreeMap<String, Place>>,
    additional: Option<Place>,
    items: Option<Place>,
    prefix_items: Vec<Place>,
    all_of: Vec<Place>,
    any_of: Vec<Place>,
}

impl Node {
    /// Whether it is about a value as one thing, whatever that is.
    fn is_opaque(&self) -> bool {
        self.types.as_ref().is_some_and(|types| types.iter().any(|name| name == OPAQUE_TYPE))
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Says something of its own.
    #[default]
    Own,
    /// Says nothing but what its branches say.
    Branches,
    /// Follow all.
    True,
    /// Follow nothing.
    False,
}

/// A conjunction unfolded: each alternative has only places with something of their own to say.
type Alternatives = Arc<Vec<Conjunction>>;

/// All the schemas that an evaluation has met.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    nodes: Vec<Node>,
    /// By canonical text, so that a link that is met twice has one schema.
    roots: HashMap<String, Place>,
    unfolded: HashMap<Conjunction, Alternatives>,
}

/// What a value is, for the `type` of a schema.
fn type_of(data: &Data) -> Option<&'static str> {
    match data {
        Data::Null => Some("null"),
        Data::Bool(_) => Some("boolean"),
        Data::Number(_) => Some("number"),
        Data::Text(_) => Some("string"),
        Data::List(_) => Some("array"),
        Data::Map(_) => Some("object"),
        // A tagged value may count as one thing or another; nothing is below it either way.
        Data::Tag(..) => None,
    }
}

impl Schemas {
    /// The conjunction of one schema.
    pub(super) fn compile(&mut self, schema: &Data) -> Result<Conjunction, SchemaError> {
        let text = schema.to_stored();
        if let Some(place) = self.roots.get(&text) {
            return Ok(vec![*place]);
        }
        let mut compiler =
            Compiler { schemas: self, root: schema, known: HashMap::new(), pending: Vec::new() };
        let place = compiler.compile_all(schema)?;
        self.roots.insert(text, place);
        Ok(vec![place])
    }

    /// Whether there is any value that it lets through; a link with another one is not gone through.
    pub(super) fn is_open(&mut self, conjunction: &Conjunction) -> Result<bool, SchemaError> {
        Ok(!self.unfold(conjunction)?.is_empty())
    }

    /// What remains to be said of a value: the alternatives whose types it has.
    pub(super) fn apply(
        &mut self,
        conjunctions: &BTreeSet<Conjunction>,
        value: &Data,
    ) -> Result<BTreeSet<Conjunction>, SchemaError> {
        let mut applicable = BTreeSet::new();
        for conjunction in conjunctions {
            for alternative in self.unfold(conjunction)?.iter() {
                if alternative.iter().all(|place| self.admits(*place, value)) {
                    applicable.insert(alternative.clone());
                }
            }
        }
        Ok(applicable)
    }

    /// What applies to a member of an object to which `alternatives` apply.
    pub(super) fn member(&self, alternatives: &BTreeSet<Conjunction>, key: &str) -> BTreeSet<Conjunction> {
        let below = |node: &Node| match (&node.properties, node.additional) {
            _ if node.is_opaque() => Below::Unmentioned,
            (Some(properties), additional) => match properties.get(key).copied().or(additional) {
                Some(place) => Below::Place(place),
                None => Below::Unmentioned,
            },
            (None, Some(additional)) => Below::Place(additional),
            (None, None) => Below::Open,
        };
        self.below(alternatives, below)
    }

    /// What applies to an item of a list to which `alternatives` apply.
    pub(super) fn item(&self, alternatives: &BTreeSet<Conjunction>, index: usize) -> BTreeSet<Conjunction> {
        let below = |node: &Node| match node.prefix_items.get(index).copied().or(node.items) {
            _ if node.is_opaque() => Below::Unmentioned,
            Some(place) => Below::Place(place),
            None => Below::Open,
        };
        self.below(alternatives, below)
    }

    fn below(
        &self,
        alternatives: &BTreeSet<Conjunction>,
        of: impl Fn(&Node) -> Below,
    ) -> BTreeSet<Conjunction> {
        let below = |alternative: &Conjunction| {
            // Without places everything is followed, all the way down.
            let mut is_open = alternative.is_empty();
            let mut places = BTreeSet::new();
            for node in alternative.iter().filter_map(|place| self.node(*place)) {
                match of(node) {
                    Below::Place(place) => {
                        places.insert(place);
                    }
                    Below::Open => is_open = true,
                    Below::Unmentioned => {}
                }
            }
            (is_open || !places.is_empty()).then(|| places.into_iter().collect())
        };
        alternatives.iter().filter_map(below).collect()
    }

    fn node(&self, place: Place) -> Option<&Node> {
        self.nodes.get(usize::try_from(place).ok()?)
    }

    fn admits(&self, place: Place, value: &Data) -> bool {
        let (Some(node), Some(actual)) = (self.node(place), type_of(value)) else { return true };
        node.types.as_ref().is_none_or(|types| {
            types.iter().any(|name| match name.as_str() {
                "integer" => actual == "number",
                OPAQUE_TYPE => true,
                name => name == actual,
            })
        })
    }

    fn unfold(&mut self, conjunction: &Conjunction) -> Result<Alternatives, SchemaError> {
        if let Some(alternatives) = self.unfolded.get(conjunction) {
            return Ok(Arc::clone(alternatives));
        }
        let mut alternatives = BTreeSet::new();
        let mut open = vec![Unfolding::new(conjunction)];
        while let Some(unfolding) = open.pop() {
            match self.advance(unfolding, &mut open) {
                Some(alternative) => {
                    alternatives.insert(alternative);
                }
                None if open.len() + alternatives.len() <= ALTERNATIVES_MAX => {}
                None => return Err(SchemaError::TooManyAlternatives),
            }
        }
        let alternatives = Arc::new(alternatives.into_iter().collect::<Vec<_>>());
        self.unfolded.insert(conjunction.clone(), Arc::clone(&alternatives));
        Ok(alternatives)
    }

    /// Unfolds one alternative to its end; where it parts, its branches go to `open`.
    fn advance(&self, mut unfolding: Unfolding, open: &mut Vec<Unfolding>) -> Option<Conjunction> {
        while let Some(place) = unfolding.rest.pop() {
            let node = self.node(place)?;
            // A place that leads back to itself adds nothing.
            if !unfolding.seen.insert(place) {
                continue;
            }
            match node.verdict {
                Verdict::False => return None,
                Verdict::True => unfolding.is_true = true,
                Verdict::Own => {
                    unfolding.places.insert(place);
                }
                Verdict::Branches => {}
            }
            unfolding.rest.extend(&node.all_of);
            if !node.any_of.is_empty() {
                open.extend(node.any_of.iter().map(|branch| unfolding.with(*branch)));
                return None;
            }
        }
        let says_something = unfolding.is_true || !unfolding.places.is_empty();
        says_something.then(|| unfolding.places.into_iter().collect())
    }
}

enum Below {
    Place(Place),
    /// Says nothing, and excludes nothing.
    Open,
    /// Lists what it is about, and this is not among it.
    Unmentioned,
}

#[derive(Clone)]
struct Unfolding {
    rest: Vec<Place>,
    places: BTreeSet<Place>,
    seen: BTreeSet<Place>,
    is_true: bool,
}

impl Unfolding {
    fn new(conjunction: &Conjunction) -> Self {
        // An empty conjunction stands for "everything".
        let is_true = conjunction.is_empty();
        Self { rest: conjunction.clone(), places: BTreeSet::new(), seen: BTreeSet::new(), is_true }
    }

    fn with(&self, branch: Place) -> Self {
        let mut unfolding = self.clone();
        unfolding.rest.push(branch);
        unfolding
    }
}

struct Compiler<'a> {
    schemas: &'a mut Schemas,
    root: &'a Data,
    /// What `$ref` names, by its text: known before it is compiled, so that it can lead back to itself.
    known: HashMap<String, Place>,
    /// What `$ref` names and is not compiled yet. A long chain of references is a long list, not a deep recursion.
    pending: Vec<(Place, &'a Data)>,
}

impl<'a> Compiler<'a> {
    fn compile_all(&mut self, schema: &Data) -> Result<Place, SchemaError> {
        let place = self.compile(schema)?;
        while let Some((place, target)) = self.pending.pop() {
            self.fill(place, target)?;
        }
        Ok(place)
    }

    fn compile(&mut self, schema: &Data) -> Result<Place, SchemaError> {
        let place = self.reserve()?;
        self.fill(place, schema)?;
        Ok(place)
    }

    fn reserve(&mut self) -> Result<Place, SchemaError> {
        let count = self.schemas.nodes.len();
        if count >= SCHEMA_NODES_MAX {
            return Err(SchemaError::TooLarge);
        }
        self.schemas.nodes.push(Node::default());
        Place::try_from(count).map_err(|_| SchemaError::TooLarge)
    }

    fn fill(&mut self, place: Place, schema: &Data) -> Result<(), SchemaError> {
        let node = match schema {
            Data::Bool(true) => Node { verdict: Verdict::True, ..Node::default() },
            Data::Bool(false) => Node { verdict: Verdict::False, ..Node::default() },
            Data::Map(_) => self.object(schema)?,
            Data::Null | Data::Number(_) | Data::Text(_) | Data::List(_) | Data::Tag(..) => {
                return Err(SchemaError::NotASchema);
            }
        };
        let index = usize::try_from(place).map_err(|_| SchemaError::TooLarge)?;
        if let Some(reserved) = self.schemas.nodes.get_mut(index) {
            *reserved = node;
        }
        Ok(())
    }

    fn object(&mut self, schema: &Data) -> Result<Node, SchemaError> {
        let mut node = Node { types: types(schema), ..Node::default() };
        if let Some(properties) = schema.get("properties").and_then(Data::as_map) {
            let compiled = properties.iter().map(|(key, value)| Ok((key.clone(), self.compile(value)?)));
            node.properties = Some(compiled.collect::<Result<_, SchemaError>>()?);
        }
        node.additional = self.optional(schema.get("additionalProperties"))?;
        node.items = self.optional(schema.get("items"))?;
        node.prefix_items = self.branches(schema, "prefixItems")?;
        node.all_of = self.branches(schema, "allOf")?;
        node.any_of = self.branches(schema, "anyOf")?;
        let one_of = self.branches(schema, "oneOf")?;
        if node.any_of.is_empty() {
            node.any_of = one_of;
        } else if !one_of.is_empty() {
            // Two unions on one place both apply: the second goes into a place of its own.
            let second = self.reserve()?;
            let index = usize::try_from(second).map_err(|_| SchemaError::TooLarge)?;
            if let Some(reserved) = self.schemas.nodes.get_mut(index) {
                *reserved = Node { verdict: Verdict::Branches, any_of: one_of, ..Node::default() };
            }
            node.all_of.push(second);
        }
        if let Some(reference) = schema.get("$ref").and_then(Data::as_str) {
            node.all_of.push(self.reference(reference)?);
        }
        node.verdict = if admits_nothing(schema) { Verdict::False } else { verdict(&node) };
        Ok(node)
    }

    fn optional(&mut self, schema: Option<&Data>) -> Result<Option<Place>, SchemaError> {
        schema.map(|schema| self.compile(schema)).transpose()
    }

    fn branches(&mut self, schema: &Data, keyword: &str) -> Result<Vec<Place>, SchemaError> {
        let branches = schema.get(keyword).and_then(Data::as_list).unwrap_or_default();
        branches.iter().map(|branch| self.compile(branch)).collect()
    }

    /// A reference into this schema; one that leads nowhere, or elsewhere, is followed no further.
    fn reference(&mut self, reference: &str) -> Result<Place, SchemaError> {
        if let Some(place) = self.known.get(reference) {
            return Ok(*place);
        }
        let place = self.reserve()?;
        self.known.insert(reference.to_owned(), place);
        let path = reference.strip_prefix('#').and_then(from_pointer);
        let target: Option<&'a Data> = path.and_then(|path| descend(self.root, &path));
        self.pending.push((place, target.unwrap_or(&Data::Bool(false))));
        Ok(place)
    }
}

fn verdict(node: &Node) -> Verdict {
    let says_itself = node.types.is_some()
        || node.properties.is_some()
        || node.additional.is_some()
        || node.items.is_some()
        || !node.prefix_items.is_empty();
    match (says_itself, node.all_of.is_empty() && node.any_of.is_empty()) {
        (true, _) => Verdict::Own,
        (false, true) => Verdict::True,
        (false, false) => Verdict::Branches,
    }
}

/// Whether it is the negation of everything, or a cell that is only passed on.
fn admits_nothing(schema: &Data) -> bool {
    let negated = schema.get("not");
    let of_all =
        negated.is_some_and(|not| *not == Data::Bool(true) || not.as_map().is_some_and(BTreeMap::is_empty));
    let cell = schema.get("asCell").and_then(Data::as_list).and_then(<[Data]>::first);
    let kind = cell.and_then(|cell| cell.as_str().or_else(|| cell.get("kind").and_then(Data::as_str)));
    of_all || kind == Some("opaque")
}

fn types(schema: &Data) -> Option<Vec<String>> {
    match schema.get("type")? {
        Data::Text(name) => Some(vec![name.clone()]),
        Data::List(names) => Some(names.iter().filter_map(Data::as_str).map(str::to_owned).collect()),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Map(_) | Data::Tag(..) => None,
    }
}

fn descend<'a>(root: &'a Data, path: &[String]) -> Option<&'a Data> {
    path.iter().try_fold(root, |place, step| match place {
        Data::Map(members) => members.get(step),
        Data::List(items) => items.get(super::path::index_of(step)?),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
    })
}

#[cfg(test)]
mod tests;

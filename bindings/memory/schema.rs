//! The schemas of selectors, compiled into a graph: what of a value is followed, and what below it.
//!
//! Compiled, a `$ref` is an edge, so a recursive schema is a cycle and not an endless tree, and a place in a schema is
//! a number, so that what was visited can be remembered. A value is looked at with a *conjunction* of places (all of
//! `allOf`, and what a link says beside what the query says); `anyOf` makes several of them. Where the meaning of a
//! schema is in doubt more is followed rather than less: the client then gets a document it did not need.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::codec::Data;

mod compile;

use compile::Compiler;

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
    /// What `$ref` names, and a second union: part of the place, unlike the branches of `allOf`.
    also: Vec<Place>,
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
        let place = Compiler::new(self, schema).compile_all(schema)?;
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
        while let Some((place, is_branch)) = unfolding.rest.pop() {
            let node = self.node(place)?;
            // A place that leads back to itself adds nothing.
            if !unfolding.seen.insert(place) {
                continue;
            }
            match node.verdict {
                Verdict::False => return None,
                // Each branch of `allOf` is walked, and one that is open goes everywhere.
                Verdict::True if is_branch => unfolding.is_everything = true,
                Verdict::True => unfolding.is_true = true,
                Verdict::Own => {
                    unfolding.places.insert(place);
                }
                Verdict::Branches => {}
            }
            unfolding.rest.extend(node.all_of.iter().map(|branch| (*branch, true)));
            unfolding.rest.extend(node.also.iter().map(|place| (*place, is_branch)));
            if !node.any_of.is_empty() {
                open.extend(node.any_of.iter().map(|branch| unfolding.with((*branch, is_branch))));
                return None;
            }
        }
        if unfolding.is_everything {
            return Some(Conjunction::new());
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
    /// Places to be looked at, and whether they are within a branch of `allOf`.
    rest: Vec<(Place, bool)>,
    places: BTreeSet<Place>,
    seen: BTreeSet<Place>,
    is_true: bool,
    is_everything: bool,
}

impl Unfolding {
    fn new(conjunction: &Conjunction) -> Self {
        // An empty conjunction stands for "everything".
        let is_true = conjunction.is_empty();
        let rest = conjunction.iter().map(|place| (*place, false)).collect();
        Self { rest, places: BTreeSet::new(), seen: BTreeSet::new(), is_true, is_everything: false }
    }

    fn with(&self, branch: (Place, bool)) -> Self {
        let mut unfolding = self.clone();
        unfolding.rest.push(branch);
        unfolding
    }
}

#[cfg(test)]
mod tests;

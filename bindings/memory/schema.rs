//! The schemas of selectors, compiled into a graph that decides which parts of a value are
//! followed.
//!
//! In the graph a `$ref` is an edge, so a recursive schema is a cycle instead of an endless tree,
//! and each subschema is a node with a number, so that visited nodes can be recorded. A value is
//! matched against a *conjunction* of nodes (the branches of `allOf`, and the schema of a link
//! beside that of the query); `anyOf` yields several conjunctions. Where a schema is ambiguous,
//! more is followed rather than less: the client then receives a document that it did not need.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::codec::Data;

mod compile;

use compile::Compiler;

/// Most nodes in the schemas of one query, or of the watches of one session.
/// The schema of a large application has some thousands.
pub(super) const SCHEMA_NODES_MAX: usize = 100_000;

/// Most alternatives of one conjunction: unions multiply, and real ones have some tens.
pub(super) const ALTERNATIVES_MAX: usize = 1_000;

/// Type of values that are reached but not searched for links.
const OPAQUE_TYPE: &str = "unknown";

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("schema: expected an object or a boolean")]
    InvalidSchema,
    #[error("schema: expected at most {SCHEMA_NODES_MAX} subschemas in total")]
    TooLarge,
    #[error("schema: expected at most {ALTERNATIVES_MAX} alternatives")]
    TooManyAlternatives,
}

/// Index of a node in [`Schemas`].
pub(super) type NodeId = u32;

/// Nodes that all apply to a value. If empty, everything is followed.
pub(super) type Conjunction = Vec<NodeId>;

/// A compiled subschema.
#[derive(Debug, Default)]
struct Node {
    kind: NodeKind,
    types: Option<Vec<String>>,
    properties: Option<BTreeMap<String, NodeId>>,
    additional: Option<NodeId>,
    items: Option<NodeId>,
    prefix_items: Vec<NodeId>,
    all_of: Vec<NodeId>,
    /// The target of `$ref`, and a second union: part of this node, unlike the branches of `allOf`.
    merged: Vec<NodeId>,
    any_of: Vec<NodeId>,
}

impl Node {
    /// Whether values are reached but not searched.
    fn is_opaque(&self) -> bool {
        self.types.as_ref().is_some_and(|types| types.iter().any(|name| name == OPAQUE_TYPE))
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    /// Has constraints of its own.
    #[default]
    Constraints,
    /// Has only branches.
    Branches,
    /// Follows everything.
    True,
    /// Follows nothing.
    False,
}

/// The expansion of a conjunction: alternatives that consist of nodes with constraints only.
type Alternatives = Arc<Vec<Conjunction>>;

/// All schemas that a traversal has used.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    nodes: Vec<Node>,
    /// By canonical text, so that equal schemas of links are compiled once.
    roots: HashMap<String, NodeId>,
    expansions: HashMap<Conjunction, Alternatives>,
}

/// The name of a value's type in the `type` of a schema.
fn type_name(data: &Data) -> Option<&'static str> {
    match data {
        Data::Null => Some("null"),
        Data::Bool(_) => Some("boolean"),
        Data::Number(_) => Some("number"),
        Data::Text(_) => Some("string"),
        Data::List(_) => Some("array"),
        Data::Map(_) => Some("object"),
        // A tagged value may stand for any type; it has no children either way.
        Data::Tag(..) => None,
    }
}

impl Schemas {
    pub(super) fn compile(&mut self, schema: &Data) -> Result<Conjunction, SchemaError> {
        let text = schema.to_canonical_json();
        if let Some(node_id) = self.roots.get(&text) {
            return Ok(vec![*node_id]);
        }
        let node_id = Compiler::new(self, schema).compile_all(schema)?;
        self.roots.insert(text, node_id);
        Ok(vec![node_id])
    }

    /// Whether the conjunction admits any value at all. Links are not followed where it does not.
    pub(super) fn is_satisfiable(&mut self, conjunction: &Conjunction) -> Result<bool, SchemaError> {
        Ok(!self.expand(conjunction)?.is_empty())
    }

    /// The alternatives whose types the value has.
    pub(super) fn apply(
        &mut self,
        conjunctions: &BTreeSet<Conjunction>,
        value: &Data,
    ) -> Result<BTreeSet<Conjunction>, SchemaError> {
        let mut applicable = BTreeSet::new();
        for conjunction in conjunctions {
            for alternative in self.expand(conjunction)?.iter() {
                if alternative.iter().all(|node_id| self.admits_type(*node_id, value)) {
                    applicable.insert(alternative.clone());
                }
            }
        }
        Ok(applicable)
    }

    /// The schemas of a member of an object to which `alternatives` apply.
    pub(super) fn member_schemas(
        &self,
        alternatives: &BTreeSet<Conjunction>,
        key: &str,
    ) -> BTreeSet<Conjunction> {
        let find_child = |node: &Node| match (&node.properties, node.additional) {
            _ if node.is_opaque() => ChildSchema::NotListed,
            (Some(properties), additional) => match properties.get(key).copied().or(additional) {
                Some(node_id) => ChildSchema::Node(node_id),
                None => ChildSchema::NotListed,
            },
            (None, Some(additional)) => ChildSchema::Node(additional),
            (None, None) => ChildSchema::Any,
        };
        self.child_schemas(alternatives, find_child)
    }

    /// The schemas of an item of a list to which `alternatives` apply.
    pub(super) fn item_schemas(
        &self,
        alternatives: &BTreeSet<Conjunction>,
        index: usize,
    ) -> BTreeSet<Conjunction> {
        let find_child = |node: &Node| match node.prefix_items.get(index).copied().or(node.items) {
            _ if node.is_opaque() => ChildSchema::NotListed,
            Some(node_id) => ChildSchema::Node(node_id),
            None => ChildSchema::Any,
        };
        self.child_schemas(alternatives, find_child)
    }

    fn child_schemas(
        &self,
        alternatives: &BTreeSet<Conjunction>,
        find_child: impl Fn(&Node) -> ChildSchema,
    ) -> BTreeSet<Conjunction> {
        let child_schema = |alternative: &Conjunction| {
            // An empty alternative follows everything, at every level.
            let mut allows_any = alternative.is_empty();
            let mut node_ids = BTreeSet::new();
            for node in alternative.iter().filter_map(|node_id| self.node(*node_id)) {
                match find_child(node) {
                    ChildSchema::Node(node_id) => {
                        node_ids.insert(node_id);
                    }
                    ChildSchema::Any => allows_any = true,
                    ChildSchema::NotListed => {}
                }
            }
            (allows_any || !node_ids.is_empty()).then(|| node_ids.into_iter().collect())
        };
        alternatives.iter().filter_map(child_schema).collect()
    }

    fn node(&self, node_id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::try_from(node_id).ok()?)
    }

    fn admits_type(&self, node_id: NodeId, value: &Data) -> bool {
        let (Some(node), Some(actual)) = (self.node(node_id), type_name(value)) else { return true };
        node.types.as_ref().is_none_or(|types| {
            types.iter().any(|name| match name.as_str() {
                "integer" => actual == "number",
                OPAQUE_TYPE => true,
                name => name == actual,
            })
        })
    }

    fn expand(&mut self, conjunction: &Conjunction) -> Result<Alternatives, SchemaError> {
        if let Some(alternatives) = self.expansions.get(conjunction) {
            return Ok(Arc::clone(alternatives));
        }
        let mut alternatives = BTreeSet::new();
        let mut queue = vec![Expansion::new(conjunction)];
        while let Some(expansion) = queue.pop() {
            match self.advance(expansion, &mut queue) {
                Some(alternative) => {
                    alternatives.insert(alternative);
                }
                None if queue.len() + alternatives.len() <= ALTERNATIVES_MAX => {}
                None => return Err(SchemaError::TooManyAlternatives),
            }
        }
        let alternatives = Arc::new(alternatives.into_iter().collect::<Vec<_>>());
        self.expansions.insert(conjunction.clone(), Arc::clone(&alternatives));
        Ok(alternatives)
    }

    /// Expands one alternative completely; at a union, its branches are added to `queue` instead.
    fn advance(&self, mut expansion: Expansion, queue: &mut Vec<Expansion>) -> Option<Conjunction> {
        while let Some((node_id, is_branch)) = expansion.rest.pop() {
            let node = self.node(node_id)?;
            // A cycle adds no constraints.
            if !expansion.seen.insert(node_id) {
                continue;
            }
            match node.kind {
                NodeKind::False => return None,
                // Each branch of `allOf` is followed on its own, so a `true` branch follows
                // everything.
                NodeKind::True if is_branch => expansion.is_everything = true,
                NodeKind::True => expansion.is_true = true,
                NodeKind::Constraints => {
                    expansion.node_ids.insert(node_id);
                }
                NodeKind::Branches => {}
            }
            expansion.rest.extend(node.all_of.iter().map(|branch| (*branch, true)));
            expansion.rest.extend(node.merged.iter().map(|node_id| (*node_id, is_branch)));
            if !node.any_of.is_empty() {
                queue.extend(node.any_of.iter().map(|branch| expansion.with((*branch, is_branch))));
                return None;
            }
        }
        if expansion.is_everything {
            return Some(Conjunction::new());
        }
        let has_constraints = expansion.is_true || !expansion.node_ids.is_empty();
        has_constraints.then(|| expansion.node_ids.into_iter().collect())
    }
}

enum ChildSchema {
    Node(NodeId),
    /// No constraint: everything is followed.
    Any,
    /// The schema lists its children, and this one is not listed.
    NotListed,
}

#[derive(Clone)]
struct Expansion {
    /// Nodes to expand, and whether they are within a branch of `allOf`.
    rest: Vec<(NodeId, bool)>,
    node_ids: BTreeSet<NodeId>,
    seen: BTreeSet<NodeId>,
    is_true: bool,
    is_everything: bool,
}

impl Expansion {
    fn new(conjunction: &Conjunction) -> Self {
        // An empty conjunction follows everything.
        let is_true = conjunction.is_empty();
        let rest = conjunction.iter().map(|node_id| (*node_id, false)).collect();
        Self { rest, node_ids: BTreeSet::new(), seen: BTreeSet::new(), is_true, is_everything: false }
    }

    fn with(&self, branch: (NodeId, bool)) -> Self {
        let mut expansion = self.clone();
        expansion.rest.push(branch);
        expansion
    }
}

#[cfg(test)]
mod tests;

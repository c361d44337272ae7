//! Compiles a schema into nodes.

use std::collections::{BTreeMap, HashMap};

use super::super::codec::Data;
use super::super::path::{from_pointer, parse_index};
use super::{Node, NodeId, NodeKind, SCHEMA_NODES_MAX, SchemaError, Schemas};

/// The keyword of definitions that a `$ref` may name.
const DEFINITIONS: &str = "$defs";

/// Index of a subschema that has definitions.
type Scope = usize;

/// The whole schema.
const ROOT: Scope = 0;

pub(super) struct Compiler<'a> {
    schemas: &'a mut Schemas,
    /// The subschemas that have definitions, each with its enclosing scope.
    scopes: Vec<(Option<Scope>, &'a Data)>,
    /// Targets of `$ref` by scope and text. A node is reserved before its target is compiled, so
    /// that a target can refer to itself.
    known: HashMap<(Scope, String), NodeId>,
    /// Targets of `$ref` that are not compiled yet. A long chain of references needs a long list,
    /// not deep recursion.
    pending: Vec<(NodeId, Scope, &'a Data)>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(schemas: &'a mut Schemas, root: &'a Data) -> Self {
        Self { schemas, scopes: vec![(None, root)], known: HashMap::new(), pending: Vec::new() }
    }

    pub(super) fn compile_all(mut self, schema: &'a Data) -> Result<NodeId, SchemaError> {
        let node_id = self.compile(schema, ROOT)?;
        while let Some((node_id, scope, target)) = self.pending.pop() {
            self.compile_into(node_id, target, scope)?;
        }
        Ok(node_id)
    }

    fn compile(&mut self, schema: &'a Data, scope: Scope) -> Result<NodeId, SchemaError> {
        let node_id = self.reserve_node()?;
        self.compile_into(node_id, schema, scope)?;
        Ok(node_id)
    }

    fn reserve_node(&mut self) -> Result<NodeId, SchemaError> {
        let count = self.schemas.nodes.len();
        if count >= SCHEMA_NODES_MAX {
            return Err(SchemaError::TooLarge);
        }
        self.schemas.nodes.push(Node::default());
        NodeId::try_from(count).map_err(|_| SchemaError::TooLarge)
    }

    fn compile_into(&mut self, node_id: NodeId, schema: &'a Data, scope: Scope) -> Result<(), SchemaError> {
        let node = match schema {
            Data::Bool(true) => Node { kind: NodeKind::True, ..Node::default() },
            Data::Bool(false) => Node { kind: NodeKind::False, ..Node::default() },
            Data::Map(_) => self.compile_object(schema, scope)?,
            Data::Null | Data::Number(_) | Data::Text(_) | Data::List(_) | Data::Tag(..) => {
                return Err(SchemaError::InvalidSchema);
            }
        };
        self.set_node(node_id, node)
    }

    fn set_node(&mut self, node_id: NodeId, node: Node) -> Result<(), SchemaError> {
        let index = usize::try_from(node_id).map_err(|_| SchemaError::TooLarge)?;
        if let Some(reserved) = self.schemas.nodes.get_mut(index) {
            *reserved = node;
        }
        Ok(())
    }

    fn compile_object(&mut self, schema: &'a Data, scope: Scope) -> Result<Node, SchemaError> {
        let scope = self.enter_scope(schema, scope);
        let mut node = Node { types: parse_types(schema), ..Node::default() };
        if let Some(properties) = schema.get("properties").and_then(Data::as_map) {
            let compiled =
                properties.iter().map(|(key, value)| Ok((key.clone(), self.compile(value, scope)?)));
            node.properties = Some(compiled.collect::<Result<_, SchemaError>>()?);
        }
        node.additional = self.compile_optional(schema.get("additionalProperties"), scope)?;
        node.items = self.compile_optional(schema.get("items"), scope)?;
        node.prefix_items = self.compile_branches(schema, "prefixItems", scope)?;
        node.all_of = self.compile_branches(schema, "allOf", scope)?;
        node.any_of = self.compile_branches(schema, "anyOf", scope)?;
        let one_of = self.compile_branches(schema, "oneOf", scope)?;
        if node.any_of.is_empty() {
            node.any_of = one_of;
        } else if !one_of.is_empty() {
            // Two unions on one subschema both apply: the second gets a node of its own.
            let second = self.reserve_node()?;
            self.set_node(second, Node { kind: NodeKind::Branches, any_of: one_of, ..Node::default() })?;
            node.merged.push(second);
        }
        if let Some(reference) = schema.get("$ref").and_then(Data::as_str) {
            node.merged.push(self.compile_reference(reference, scope)?);
        }
        node.kind = if admits_nothing(schema) { NodeKind::False } else { node_kind(&node) };
        Ok(node)
    }

    fn compile_optional(
        &mut self,
        schema: Option<&'a Data>,
        scope: Scope,
    ) -> Result<Option<NodeId>, SchemaError> {
        schema.map(|schema| self.compile(schema, scope)).transpose()
    }

    fn compile_branches(
        &mut self,
        schema: &'a Data,
        keyword: &str,
        scope: Scope,
    ) -> Result<Vec<NodeId>, SchemaError> {
        let branches = schema.get(keyword).and_then(Data::as_list).unwrap_or_default();
        branches.iter().map(|branch| self.compile(branch, scope)).collect()
    }

    /// The scope inside a subschema: a new one if it has definitions.
    fn enter_scope(&mut self, schema: &'a Data, scope: Scope) -> Scope {
        let is_scope = self.scopes.get(scope).is_some_and(|(_, enclosing)| std::ptr::eq(*enclosing, schema));
        if is_scope || schema.get(DEFINITIONS).is_none() {
            return scope;
        }
        self.scopes.push((Some(scope), schema));
        self.scopes.len() - 1
    }

    /// The node of a `$ref`. A reference without a target in this schema follows nothing.
    fn compile_reference(&mut self, reference: &str, scope: Scope) -> Result<NodeId, SchemaError> {
        let path = reference.strip_prefix('#').and_then(from_pointer);
        let found = path.and_then(|path| self.resolve_path(&path, scope));
        let (scope, target) = found.unwrap_or((ROOT, &Data::Bool(false)));
        let key = (scope, reference.to_owned());
        if let Some(node_id) = self.known.get(&key) {
            return Ok(*node_id);
        }
        let node_id = self.reserve_node()?;
        self.known.insert(key, node_id);
        self.pending.push((node_id, scope, target));
        Ok(node_id)
    }

    /// Looks up a definition in the nearest enclosing scope that has it, and any other path in the
    /// whole schema.
    fn resolve_path(&self, path: &[String], scope: Scope) -> Option<(Scope, &'a Data)> {
        let is_definition = path.len() > 1 && path.first().is_some_and(|step| step == DEFINITIONS);
        let mut next = Some(if is_definition { scope } else { ROOT });
        while let Some(scope) = next {
            let (enclosing, schema) = self.scopes.get(scope)?;
            if let Some(target) = find_value(schema, path) {
                return Some((scope, target));
            }
            next = *enclosing;
        }
        None
    }
}

fn node_kind(node: &Node) -> NodeKind {
    let has_constraints = node.types.is_some()
        || node.properties.is_some()
        || node.additional.is_some()
        || node.items.is_some()
        || !node.prefix_items.is_empty();
    match (has_constraints, node.all_of.is_empty() && node.any_of.is_empty() && node.merged.is_empty()) {
        (true, _) => NodeKind::Constraints,
        (false, true) => NodeKind::True,
        (false, false) => NodeKind::Branches,
    }
}

/// Whether the schema negates everything, or describes an opaque cell.
fn admits_nothing(schema: &Data) -> bool {
    let negated = schema.get("not");
    let negates_all =
        negated.is_some_and(|not| *not == Data::Bool(true) || not.as_map().is_some_and(BTreeMap::is_empty));
    let cell = schema.get("asCell").and_then(Data::as_list).and_then(<[Data]>::first);
    let kind = cell.and_then(|cell| cell.as_str().or_else(|| cell.get("kind").and_then(Data::as_str)));
    negates_all || kind == Some("opaque")
}

fn parse_types(schema: &Data) -> Option<Vec<String>> {
    match schema.get("type")? {
        Data::Text(name) => Some(vec![name.clone()]),
        Data::List(names) => Some(names.iter().filter_map(Data::as_str).map(str::to_owned).collect()),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Map(_) | Data::Tag(..) => None,
    }
}

fn find_value<'a>(root: &'a Data, path: &[String]) -> Option<&'a Data> {
    path.iter().try_fold(root, |node_id, step| match node_id {
        Data::Map(members) => members.get(step),
        Data::List(items) => items.get(parse_index(step)?),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
    })
}

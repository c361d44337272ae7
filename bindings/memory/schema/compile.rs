//! From the text of a schema to its places.

use std::collections::{BTreeMap, HashMap};

use super::super::codec::Data;
use super::super::path::{from_pointer, index_of};
use super::{Node, Place, SCHEMA_NODES_MAX, SchemaError, Schemas, Verdict};

/// Where the definitions are that a `$ref` may name.
const DEFINITIONS: &str = "$defs";

/// A schema with definitions of its own, by its number.
type Scope = usize;

/// The whole schema, which everything is within.
const ROOT: Scope = 0;

pub(super) struct Compiler<'a> {
    schemas: &'a mut Schemas,
    /// The schemas that have definitions, each with the one around it.
    scopes: Vec<(Option<Scope>, &'a Data)>,
    /// What `$ref` names, by scope and text: known before it is compiled, so that it can lead back to itself.
    known: HashMap<(Scope, String), Place>,
    /// What `$ref` names and is not compiled yet. A long chain of references is a long list, not a deep recursion.
    pending: Vec<(Place, Scope, &'a Data)>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(schemas: &'a mut Schemas, root: &'a Data) -> Self {
        Self { schemas, scopes: vec![(None, root)], known: HashMap::new(), pending: Vec::new() }
    }

    pub(super) fn compile_all(mut self, schema: &'a Data) -> Result<Place, SchemaError> {
        let place = self.compile(schema, ROOT)?;
        while let Some((place, scope, target)) = self.pending.pop() {
            self.fill(place, target, scope)?;
        }
        Ok(place)
    }

    fn compile(&mut self, schema: &'a Data, scope: Scope) -> Result<Place, SchemaError> {
        let place = self.reserve()?;
        self.fill(place, schema, scope)?;
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

    fn fill(&mut self, place: Place, schema: &'a Data, scope: Scope) -> Result<(), SchemaError> {
        let node = match schema {
            Data::Bool(true) => Node { verdict: Verdict::True, ..Node::default() },
            Data::Bool(false) => Node { verdict: Verdict::False, ..Node::default() },
            Data::Map(_) => self.object(schema, scope)?,
            Data::Null | Data::Number(_) | Data::Text(_) | Data::List(_) | Data::Tag(..) => {
                return Err(SchemaError::NotASchema);
            }
        };
        self.set(place, node)
    }

    fn set(&mut self, place: Place, node: Node) -> Result<(), SchemaError> {
        let index = usize::try_from(place).map_err(|_| SchemaError::TooLarge)?;
        if let Some(reserved) = self.schemas.nodes.get_mut(index) {
            *reserved = node;
        }
        Ok(())
    }

    fn object(&mut self, schema: &'a Data, scope: Scope) -> Result<Node, SchemaError> {
        let scope = self.scope_within(schema, scope);
        let mut node = Node { types: types(schema), ..Node::default() };
        if let Some(properties) = schema.get("properties").and_then(Data::as_map) {
            let compiled =
                properties.iter().map(|(key, value)| Ok((key.clone(), self.compile(value, scope)?)));
            node.properties = Some(compiled.collect::<Result<_, SchemaError>>()?);
        }
        node.additional = self.optional(schema.get("additionalProperties"), scope)?;
        node.items = self.optional(schema.get("items"), scope)?;
        node.prefix_items = self.branches(schema, "prefixItems", scope)?;
        node.all_of = self.branches(schema, "allOf", scope)?;
        node.any_of = self.branches(schema, "anyOf", scope)?;
        let one_of = self.branches(schema, "oneOf", scope)?;
        if node.any_of.is_empty() {
            node.any_of = one_of;
        } else if !one_of.is_empty() {
            // Two unions on one place both apply: the second goes into a place of its own.
            let second = self.reserve()?;
            self.set(second, Node { verdict: Verdict::Branches, any_of: one_of, ..Node::default() })?;
            node.also.push(second);
        }
        if let Some(reference) = schema.get("$ref").and_then(Data::as_str) {
            node.also.push(self.reference(reference, scope)?);
        }
        node.verdict = if admits_nothing(schema) { Verdict::False } else { verdict(&node) };
        Ok(node)
    }

    fn optional(&mut self, schema: Option<&'a Data>, scope: Scope) -> Result<Option<Place>, SchemaError> {
        schema.map(|schema| self.compile(schema, scope)).transpose()
    }

    fn branches(&mut self, schema: &'a Data, keyword: &str, scope: Scope) -> Result<Vec<Place>, SchemaError> {
        let branches = schema.get(keyword).and_then(Data::as_list).unwrap_or_default();
        branches.iter().map(|branch| self.compile(branch, scope)).collect()
    }

    /// The scope of what stands in a schema: a new one if it has definitions of its own.
    fn scope_within(&mut self, schema: &'a Data, scope: Scope) -> Scope {
        let is_scope = self.scopes.get(scope).is_some_and(|(_, around)| std::ptr::eq(*around, schema));
        if is_scope || schema.get(DEFINITIONS).is_none() {
            return scope;
        }
        self.scopes.push((Some(scope), schema));
        self.scopes.len() - 1
    }

    /// A reference into this schema; one that leads nowhere, or elsewhere, is followed no further.
    fn reference(&mut self, reference: &str, scope: Scope) -> Result<Place, SchemaError> {
        let path = reference.strip_prefix('#').and_then(from_pointer);
        let found = path.and_then(|path| self.resolve(&path, scope));
        let (scope, target) = found.unwrap_or((ROOT, &Data::Bool(false)));
        let key = (scope, reference.to_owned());
        if let Some(place) = self.known.get(&key) {
            return Ok(*place);
        }
        let place = self.reserve()?;
        self.known.insert(key, place);
        self.pending.push((place, scope, target));
        Ok(place)
    }

    /// What a path leads to: a definition in the nearest schema around that has it, all else in the whole schema.
    fn resolve(&self, path: &[String], scope: Scope) -> Option<(Scope, &'a Data)> {
        let is_definition = path.len() > 1 && path.first().is_some_and(|step| step == DEFINITIONS);
        let mut next = Some(if is_definition { scope } else { ROOT });
        while let Some(scope) = next {
            let (around, schema) = self.scopes.get(scope)?;
            if let Some(target) = descend(schema, path) {
                return Some((scope, target));
            }
            next = *around;
        }
        None
    }
}

fn verdict(node: &Node) -> Verdict {
    let says_itself = node.types.is_some()
        || node.properties.is_some()
        || node.additional.is_some()
        || node.items.is_some()
        || !node.prefix_items.is_empty();
    match (says_itself, node.all_of.is_empty() && node.any_of.is_empty() && node.also.is_empty()) {
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
        Data::List(items) => items.get(index_of(step)?),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
    })
}

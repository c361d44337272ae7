//! Builds the graph of a [`Shape`](super::Shape): visits each subschema once, in the order in which it is found, then
//! follows the references.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::applicator::{Step, holds_a_map, step_of};
use super::super::cost::{self, Cost};
use super::super::pattern::{self, PatternCost};
use super::super::{SchemaError, is_supported_draft, reference, schema_error, unsupported_draft};
use super::{
    DYNAMIC_RESOURCES_MAX, LINKS_MAX, MissingDefinition, Node, PATTERNS_BYTES_MAX, PATTERNS_MAX,
    SUBSCHEMAS_MAX, ShapeRules, unresolved,
};
use crate::protocol::declaration::pointer_to;

/// Prefix of the metaschemas that the validator contains.
const METASCHEMAS: &str = "https://json-schema.org/draft/2020-12/";

/// Where a subschema was found, relative to its parent: pointers are spelled out only for an error.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    parent: usize,
    keyword: &'a str,
    member: Member<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Member<'a> {
    Only,
    Key(&'a str),
    Index(usize),
}

struct VisitedSchema<'a> {
    schema: &'a Value,
    /// The nearest enclosing schema with an `$id`, from which pointers count.
    resource: &'a Value,
    place: Option<Place<'a>>,
}

pub(super) struct Survey<'a> {
    document: &'a Value,
    pub(super) nodes: Vec<Node>,
    visited: Vec<VisitedSchema<'a>>,
    next: usize,
    /// By address: one subschema reached by two ways is one node.
    index: HashMap<usize, usize>,
    /// By the last segment of their `$id`.
    resources: HashMap<&'a str, Vec<&'a Value>>,
    /// By name, `$anchor` and `$dynamicAnchor` alike.
    anchors: HashMap<&'a str, Vec<usize>>,
    link_count: usize,
    references: Vec<(usize, &'a str, &'a str)>,
    has_dynamic_references: bool,
    rules: ShapeRules,
    pattern_count: usize,
    pub(super) patterns: HashMap<&'a str, PatternCost>,
    pub(super) patterns_bytes: usize,
    pub(super) missing_definitions: Vec<MissingDefinition>,
    pub(super) foreign_reference: Option<(String, String)>,
}

impl<'a> Survey<'a> {
    pub(super) fn new(document: &'a Value, rules: ShapeRules) -> Self {
        let mut survey = Self {
            document,
            nodes: Vec::new(),
            visited: Vec::new(),
            next: 0,
            index: HashMap::new(),
            resources: HashMap::new(),
            anchors: HashMap::new(),
            link_count: 0,
            references: Vec::new(),
            has_dynamic_references: false,
            rules,
            pattern_count: 0,
            patterns: HashMap::new(),
            patterns_bytes: 0,
            missing_definitions: Vec::new(),
            foreign_reference: None,
        };
        survey.node_for(document, document, None);
        survey
    }

    fn node_for(&mut self, schema: &'a Value, resource: &'a Value, place: Option<Place<'a>>) -> usize {
        let address = std::ptr::from_ref(schema).addr();
        if let Some(node) = self.index.get(&address) {
            return *node;
        }
        let node = self.nodes.len();
        let has_id = schema.get("$id").is_some_and(Value::is_string);
        self.index.insert(address, node);
        self.nodes.push(Node::default());
        self.visited.push(VisitedSchema { schema, resource: if has_id { schema } else { resource }, place });
        node
    }

    pub(super) fn visit_pending(&mut self) -> Result<(), SchemaError> {
        while let Some(visited) = self.visited.get(self.next) {
            if self.next >= SUBSCHEMAS_MAX {
                return Err(schema_error("", format!("expected at most {SUBSCHEMAS_MAX} subschemas")));
            }
            let (node, schema, resource) = (self.next, visited.schema, visited.resource);
            self.next += 1;
            if let Some(fields) = schema.as_object() {
                self.visit(node, fields, resource)?;
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        node: usize,
        fields: &'a Map<String, Value>,
        resource: &'a Value,
    ) -> Result<(), SchemaError> {
        for (keyword, value) in fields {
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef", Value::String(reference)) => {
                    self.has_dynamic_references |= keyword == "$dynamicRef";
                    self.references.push((node, keyword, reference));
                }
                ("$id", Value::String(id)) => {
                    self.resources.entry(last_segment(id)).or_default().push(resource)
                }
                ("$anchor" | "$dynamicAnchor", Value::String(anchor)) => {
                    self.anchors.entry(anchor).or_default().push(node)
                }
                ("$schema", Value::String(draft)) if !is_supported_draft(draft) => {
                    return Err(unsupported_draft(self.pointer(node, keyword), draft));
                }
                ("pattern", Value::String(pattern)) => {
                    let cost = self.measure(node, keyword, None, pattern)?;
                    self.add_cost(node, cost::of_pattern(cost));
                }
                ("patternProperties", Value::Object(patterns)) => {
                    for pattern in patterns.keys() {
                        let cost = self.measure(node, keyword, Some(pattern), pattern)?;
                        self.add_cost(node, cost::of_name_pattern(cost));
                    }
                }
                _ => self.add_cost(node, cost::of_keyword(keyword, value)),
            }
            if let Some(step) = step_of(keyword) {
                self.follow_applicator(node, keyword, step, value, resource);
            }
        }
        Ok(())
    }

    fn add_cost(&mut self, node: usize, cost: Cost) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.cost = node.cost.plus(cost);
        }
    }

    /// Measures a pattern, once if several keywords have it.
    fn measure(
        &mut self,
        node: usize,
        keyword: &str,
        member: Option<&str>,
        pattern: &'a str,
    ) -> Result<PatternCost, SchemaError> {
        self.pattern_count += 1;
        if self.pattern_count > PATTERNS_MAX {
            return Err(schema_error("", format!("expected at most {PATTERNS_MAX} patterns")));
        }
        if let Some(cost) = self.patterns.get(pattern) {
            return Ok(*cost);
        }
        let cost = pattern::measure(pattern, self.rules.patterns).map_err(|message| {
            let member = member.map(pointer_to).unwrap_or_default();
            schema_error(format!("{}{member}", self.pointer(node, keyword)), message)
        })?;
        self.patterns_bytes += cost.compiled_bytes;
        if self.patterns_bytes > PATTERNS_BYTES_MAX {
            let message = format!("expected patterns of at most {PATTERNS_BYTES_MAX} bytes compiled");
            return Err(schema_error(self.pointer(node, keyword), message));
        }
        self.patterns.insert(pattern, cost);
        Ok(cost)
    }

    fn follow_applicator(
        &mut self,
        parent: usize,
        keyword: &'a str,
        step: Step,
        value: &'a Value,
        resource: &'a Value,
    ) {
        let place = |member| Some(Place { parent, keyword, member });
        match value {
            Value::Object(members) if holds_a_map(keyword) => {
                for (key, schema) in members.iter().filter(|(_, schema)| !schema.is_array()) {
                    let target = self.node_for(schema, resource, place(Member::Key(key)));
                    self.link(parent, step, Some(key), target);
                }
            }
            Value::Array(schemas) => {
                for (at, schema) in schemas.iter().enumerate() {
                    let target = self.node_for(schema, resource, place(Member::Index(at)));
                    self.link(parent, step, None, target);
                }
            }
            schema => {
                let target = self.node_for(schema, resource, place(Member::Only));
                self.link(parent, step, None, target);
            }
        }
        if keyword.starts_with("unevaluated")
            && let Some(node) = self.nodes.get_mut(parent)
        {
            node.marks = true;
        }
    }

    fn link(&mut self, from: usize, step: Step, name: Option<&str>, to: usize) {
        let Some(node) = self.nodes.get_mut(from) else {
            return;
        };
        match (step, name) {
            (Step::InPlace, _) => node.in_place.push(to),
            (Step::Named, Some(name)) => drop(node.named.insert(name.to_owned(), to)),
            (Step::EachProperty | Step::Named, _) => node.each_property.push(to),
            (Step::EachName, _) => node.each_name.push(to),
            (Step::Prefix, _) => node.prefix.push(to),
            (Step::EachItem, _) => node.each_item.push(to),
            (Step::Aside, _) => {}
        }
    }

    /// Links references to their targets. A target may be a place that no applicator leads to, and have references of its
    /// own.
    pub(super) fn follow_references(&mut self) -> Result<(), SchemaError> {
        if self.has_dynamic_references && self.resources.len() > DYNAMIC_RESOURCES_MAX {
            let message = format!("expected at most {DYNAMIC_RESOURCES_MAX} `$id` beside a `$dynamicRef`");
            return Err(schema_error("", message));
        }
        while let Some((node, keyword, reference)) = self.references.pop() {
            let targets = self.targets(node, keyword, reference);
            if targets.is_empty() && !reference.starts_with(METASCHEMAS) {
                self.record_dangling(node, keyword, reference)?;
            }
            self.link_count += targets.len();
            if self.link_count > LINKS_MAX {
                return Err(schema_error(
                    "",
                    format!("expected at most {LINKS_MAX} references, counting every possible target"),
                ));
            }
            for target in targets {
                self.link(node, Step::InPlace, None, target);
            }
            self.visit_pending()?;
        }
        Ok(())
    }

    fn record_dangling(&mut self, node: usize, keyword: &str, reference: &str) -> Result<(), SchemaError> {
        let path = self.pointer(node, keyword);
        let is_definition = keyword == "$ref" && reference.starts_with("#/$defs/");
        if is_definition && self.rules.forgives_missing_definitions {
            self.missing_definitions.push(MissingDefinition { path, reference: reference.to_owned() });
        } else if reference.starts_with('#') {
            return Err(unresolved(&path, reference));
        } else {
            self.foreign_reference = Some((path, reference.to_owned()));
        }
        Ok(())
    }

    fn targets(&mut self, node: usize, keyword: &'a str, reference: &str) -> Vec<usize> {
        let (uri, fragment) = reference.split_at(reference.find('#').unwrap_or(reference.len()));
        let anchor = fragment.strip_prefix('#').unwrap_or_default();
        if !anchor.is_empty() && !anchor.starts_with('/') {
            return self.anchors.get(anchor).cloned().unwrap_or_default();
        }
        let fragment = if fragment.is_empty() { "#" } else { fragment };
        let place = Some(Place { parent: node, keyword, member: Member::Only });
        if uri.is_empty() {
            let resource = self.visited.get(node).map_or(self.document, |visited| visited.resource);
            let found = [resource, self.document]
                .into_iter()
                .find_map(|root| Some((reference::resolve(root, fragment)?, root)));
            return found.map(|(schema, root)| self.node_for(schema, root, place)).into_iter().collect();
        }
        let resources = self.resources.get(last_segment(uri)).cloned().unwrap_or_default();
        let found =
            resources.into_iter().filter_map(|root| Some((reference::resolve(root, fragment)?, root)));
        found.map(|(schema, root)| self.node_for(schema, root, place)).collect()
    }

    fn pointer(&self, node: usize, keyword: &str) -> String {
        let mut segments = vec![keyword.to_owned()];
        let mut at = self.visited.get(node).and_then(|visited| visited.place);
        while let Some(place) = at {
            match place.member {
                Member::Only => {}
                Member::Key(key) => segments.push(key.replace('~', "~0").replace('/', "~1")),
                Member::Index(index) => segments.push(index.to_string()),
            }
            segments.push(place.keyword.to_owned());
            at = self.visited.get(place.parent).and_then(|visited| visited.place);
        }
        segments.iter().rev().flat_map(|segment| ["/", segment]).collect()
    }
}

/// The part of a URI that is compared: whatever the base, a reference and the `$id` that it means end alike.
fn last_segment(uri: &str) -> &str {
    uri.trim_end_matches('#').rsplit(['/', ':']).next().unwrap_or(uri)
}

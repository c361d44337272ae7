//! Which subschemas of a document lead to which others, and by what step.
//!
//! A graph of indexes, built without recursion, that knows no keyword but the applicators. Where a reference could mean
//! several places (dynamic anchors, relative `$id`s) it leads to all of them: the graph serves to bound work from above,
//! and what a reference really means stays the validator's business.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::applicator::{Step, holds_a_map, step_of};
use super::cost::{self, Cost};
use super::pattern::{self, PatternCost, PatternRules};
use super::{SchemaError, failure, refused};
use crate::protocol::declaration::pointer_to;
use crate::schema::reference;

/// Most subschemas of a document.
/// The largest published schemas have some ten thousand; each costs about a kilobyte compiled.
pub(super) const SUBSCHEMAS_MAX: usize = 50_000;

/// Most patterns of a document. Each takes some 10 KiB at the least, and a client's are charged besides.
pub(super) const PATTERNS_MAX: usize = 256;

/// Most bytes that the patterns of one document take compiled, whoever wrote it.
pub(super) const PATTERNS_BYTES_MAX: usize = 64 << 20;

/// Most resources (`$id`) of a document with a `$dynamicRef`: what that means depends on the way through them, and the
/// compiler goes every way.
pub(super) const DYNAMIC_RESOURCES_MAX: usize = 4;

/// Most steps from subschemas to subschemas.
/// A reference that could mean many places makes one to each; a document that multiplies so is not meant to be read.
pub(super) const LINKS_MAX: usize = 200_000;

/// The metaschemas that the validator has with it.
const METASCHEMAS: &str = "https://json-schema.org/draft/2020-12/";

/// The graph; node 0 is the document.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) nodes: Vec<Node>,
    /// Bytes of all different patterns, compiled.
    pub(super) patterns_bytes: usize,
    /// Whether a pattern needs an engine that backtracks.
    pub(super) is_backtracking: bool,
    /// Pointers to references to definitions that are missing, where that is forgiven.
    pub(super) missing_definitions: Vec<MissingDefinition>,
    foreign_reference: Option<(String, String)>,
}

/// A `$ref` to `#/$defs/…` that is not there.
#[derive(Debug)]
pub(super) struct MissingDefinition {
    /// Pointer to the `$ref`.
    pub(super) path: String,
    pub(super) reference: String,
}

/// What is accepted of a document, by whoever wrote it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShapeRules {
    pub(super) patterns: PatternRules,
    pub(super) forgives_missing_definitions: bool,
}

/// One subschema: where it leads to.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Applied to the same value.
    pub(super) in_place: Vec<usize>,
    /// Applied to the property of that name.
    pub(super) named: HashMap<String, usize>,
    /// Possibly applied to every property.
    pub(super) each_property: Vec<usize>,
    /// Applied to the name of every property.
    pub(super) each_name: Vec<usize>,
    /// Applied to the item of that position.
    pub(super) prefix: Vec<usize>,
    /// Possibly applied to every item.
    pub(super) each_item: Vec<usize>,
    /// Has `unevaluatedProperties` or `unevaluatedItems`, for which the validator goes through what is in place again,
    /// to mark what was evaluated.
    pub(super) marks: bool,
    /// What its own keywords cost on one value, without where they lead.
    pub(super) cost: Cost,
}

impl Shape {
    pub(super) fn of(document: &Value, rules: ShapeRules) -> Result<Self, SchemaError> {
        let mut survey = Survey::new(document, rules);
        survey.visit_pending()?;
        survey.follow_references()?;
        let Survey { nodes, patterns, patterns_bytes, missing_definitions, foreign_reference, .. } = survey;
        let is_backtracking = patterns.values().any(|cost| cost.is_backtracking);
        Ok(Self { nodes, patterns_bytes, is_backtracking, missing_definitions, foreign_reference })
    }

    /// Place and text of the first reference that leads out of the document.
    pub(super) fn foreign_reference(&self) -> Option<(&str, &str)> {
        self.foreign_reference.as_ref().map(|(path, reference)| (path.as_str(), reference.as_str()))
    }
}

pub(super) fn unresolved(path: &str, reference: &str) -> SchemaError {
    let reference = failure::shortened(reference);
    refused(path, format!("`{reference}` cannot be resolved inside the schema, and nothing is fetched"))
}

/// Where a subschema was found, as a link to where that was found: pointers are spelled out only for an error.
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

struct Visited<'a> {
    schema: &'a Value,
    /// The nearest enclosing schema with an `$id`, from which pointers count.
    resource: &'a Value,
    place: Option<Place<'a>>,
}

struct Survey<'a> {
    document: &'a Value,
    nodes: Vec<Node>,
    visited: Vec<Visited<'a>>,
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
    patterns: HashMap<&'a str, PatternCost>,
    patterns_bytes: usize,
    missing_definitions: Vec<MissingDefinition>,
    foreign_reference: Option<(String, String)>,
}

impl<'a> Survey<'a> {
    fn new(document: &'a Value, rules: ShapeRules) -> Self {
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
        self.visited.push(Visited { schema, resource: if has_id { schema } else { resource }, place });
        node
    }

    fn visit_pending(&mut self) -> Result<(), SchemaError> {
        while let Some(visited) = self.visited.get(self.next) {
            if self.next >= SUBSCHEMAS_MAX {
                return Err(refused("", format!("expected at most {SUBSCHEMAS_MAX} subschemas")));
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
                ("$schema", Value::String(draft)) if !super::is_supported_draft(draft) => {
                    return Err(super::unsupported_draft(self.pointer(node, keyword), draft));
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
                self.lead(node, keyword, step, value, resource);
            }
        }
        Ok(())
    }

    fn add_cost(&mut self, node: usize, cost: Cost) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.cost = node.cost.plus(cost);
        }
    }

    /// A pattern that stands in several places is compiled once.
    fn measure(
        &mut self,
        node: usize,
        keyword: &str,
        member: Option<&str>,
        pattern: &'a str,
    ) -> Result<PatternCost, SchemaError> {
        self.pattern_count += 1;
        if self.pattern_count > PATTERNS_MAX {
            return Err(refused("", format!("expected at most {PATTERNS_MAX} patterns")));
        }
        if let Some(cost) = self.patterns.get(pattern) {
            return Ok(*cost);
        }
        let cost = pattern::measure(pattern, self.rules.patterns).map_err(|message| {
            let member = member.map(pointer_to).unwrap_or_default();
            refused(format!("{}{member}", self.pointer(node, keyword)), message)
        })?;
        self.patterns_bytes += cost.compiled_bytes;
        if self.patterns_bytes > PATTERNS_BYTES_MAX {
            let message = format!("expected patterns of at most {PATTERNS_BYTES_MAX} bytes compiled");
            return Err(refused(self.pointer(node, keyword), message));
        }
        self.patterns.insert(pattern, cost);
        Ok(cost)
    }

    fn lead(&mut self, parent: usize, keyword: &'a str, step: Step, value: &'a Value, resource: &'a Value) {
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

    /// A target may be a place that no applicator leads to, and have references of its own.
    fn follow_references(&mut self) -> Result<(), SchemaError> {
        if self.has_dynamic_references && self.resources.len() > DYNAMIC_RESOURCES_MAX {
            let message = format!("expected at most {DYNAMIC_RESOURCES_MAX} `$id` beside a `$dynamicRef`");
            return Err(refused("", message));
        }
        while let Some((node, keyword, reference)) = self.references.pop() {
            let targets = self.targets(node, keyword, reference);
            if targets.is_empty() && !reference.starts_with(METASCHEMAS) {
                self.note_dangling(node, keyword, reference)?;
            }
            self.link_count += targets.len();
            if self.link_count > LINKS_MAX {
                return Err(refused(
                    "",
                    format!("expected at most {LINKS_MAX} references with all they could mean"),
                ));
            }
            for target in targets {
                self.link(node, Step::InPlace, None, target);
            }
            self.visit_pending()?;
        }
        Ok(())
    }

    fn note_dangling(&mut self, node: usize, keyword: &str, reference: &str) -> Result<(), SchemaError> {
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

/// What of a URI is compared: whatever the base, a reference and the `$id` that it means end alike.
fn last_segment(uri: &str) -> &str {
    uri.trim_end_matches('#').rsplit(['/', ':']).next().unwrap_or(uri)
}

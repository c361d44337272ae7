//! Which subschemas of a document lead to which others, and by what step.
//!
//! A graph of indexes, built without recursion, that knows no keyword but the applicators. Where a reference could mean
//! several places (dynamic anchors, relative `$id`s) it leads to all of them: the graph serves to bound work from above,
//! and what a reference really means stays the validator's business.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{SchemaError, failure, refused};
use crate::binding::reference;

/// Most subschemas of a document.
/// The largest published schemas have some ten thousand; each costs about a kilobyte compiled.
pub(super) const SUBSCHEMAS_MAX: usize = 50_000;

/// Most patterns of a document.
/// They share [`super::PATTERNS_BYTES_MAX`], and with less than 128 KiB each even plain ones would not compile.
pub(super) const PATTERNS_MAX: usize = 256;

/// Most steps from subschemas to subschemas.
/// A reference that could mean many places makes one to each; a document that multiplies so is not meant to be read.
pub(super) const LINKS_MAX: usize = 200_000;

/// The metaschemas that the validator has with it.
const METASCHEMAS: &str = "https://json-schema.org/draft/2020-12/";

/// The graph; node 0 is the document.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) nodes: Vec<Node>,
    pub(super) pattern_count: usize,
    foreign_reference: Option<(String, String)>,
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
    /// Applied to the item of that position.
    pub(super) prefix: Vec<usize>,
    /// Possibly applied to every item.
    pub(super) each_item: Vec<usize>,
    /// Has `unevaluatedProperties` or `unevaluatedItems`, for which the validator goes through what is in place again.
    pub(super) evaluates_twice: bool,
}

impl Shape {
    pub(super) fn of(document: &Value) -> Result<Self, SchemaError> {
        let mut survey = Survey::new(document);
        survey.visit_pending()?;
        survey.follow_references()?;
        let Survey { nodes, pattern_count, foreign_reference, .. } = survey;
        Ok(Self { nodes, pattern_count, foreign_reference })
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

#[derive(Debug, Clone, Copy)]
enum Step {
    InPlace,
    Named,
    EachProperty,
    Prefix,
    EachItem,
    /// Not applied where it stands; only references lead there.
    Aside,
}

fn step_of(keyword: &str) -> Option<Step> {
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas"
        | "dependencies" => Step::InPlace,
        "properties" => Step::Named,
        "patternProperties" | "additionalProperties" | "unevaluatedProperties" | "propertyNames" => {
            Step::EachProperty
        }
        "prefixItems" => Step::Prefix,
        "items" | "additionalItems" | "unevaluatedItems" | "contains" => Step::EachItem,
        "$defs" | "definitions" | "contentSchema" => Step::Aside,
        _ => return None,
    })
}

fn holds_a_map(keyword: &str) -> bool {
    matches!(
        keyword,
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions"
    )
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
    pattern_count: usize,
    foreign_reference: Option<(String, String)>,
}

impl<'a> Survey<'a> {
    fn new(document: &'a Value) -> Self {
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
            pattern_count: 0,
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
                    self.references.push((node, keyword, reference));
                }
                ("$id", Value::String(id)) => {
                    self.resources.entry(last_segment(id)).or_default().push(resource)
                }
                ("$anchor" | "$dynamicAnchor", Value::String(anchor)) => {
                    self.anchors.entry(anchor).or_default().push(node)
                }
                ("pattern", _) => self.pattern_count += 1,
                ("patternProperties", Value::Object(patterns)) => self.pattern_count += patterns.len(),
                _ => {}
            }
            if let Some(step) = step_of(keyword) {
                self.lead(node, keyword, step, value, resource);
            }
        }
        if self.pattern_count > PATTERNS_MAX {
            return Err(refused("", format!("expected at most {PATTERNS_MAX} patterns")));
        }
        Ok(())
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
            node.evaluates_twice = true;
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
            (Step::Prefix, _) => node.prefix.push(to),
            (Step::EachItem, _) => node.each_item.push(to),
            (Step::Aside, _) => {}
        }
    }

    /// A target may be a place that no applicator leads to, and have references of its own.
    fn follow_references(&mut self) -> Result<(), SchemaError> {
        while let Some((node, keyword, reference)) = self.references.pop() {
            let targets = self.targets(node, keyword, reference);
            if targets.is_empty() && !reference.starts_with(METASCHEMAS) {
                let path = self.pointer(node, keyword);
                if reference.starts_with('#') {
                    return Err(unresolved(&path, reference));
                }
                self.foreign_reference = Some((path, reference.to_owned()));
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

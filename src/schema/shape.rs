//! Which subschemas of a document lead to which others, and by what step.
//!
//! A graph of indexes, built without recursion, that knows no keyword but the applicators. Where a reference could mean
//! several places (dynamic anchors, relative `$id`s) it leads to all of them: the graph serves to bound work from above,
//! what a reference really means is decided by the validator.

mod survey;

use std::collections::HashMap;

use serde_json::Value;

use super::cost::Cost;
use super::pattern::PatternRules;
use super::{SchemaError, failure, schema_error};
use survey::Survey;

/// Most subschemas of a document.
/// The largest published schemas have some ten thousand; each costs about a kilobyte compiled.
pub(super) const SUBSCHEMAS_MAX: usize = 50_000;

/// Most patterns of a document. Each takes some 10 KiB at the least, and a client's are charged besides.
pub(super) const PATTERNS_MAX: usize = 256;

/// Most bytes that the patterns of one document take compiled, whatever its source.
pub(super) const PATTERNS_BYTES_MAX: usize = 64 << 20;

/// Most resources (`$id`) of a document with a `$dynamicRef`: what that means depends on the path through them, and the
/// compiler follows every path.
pub(super) const DYNAMIC_RESOURCES_MAX: usize = 4;

/// Most steps from subschemas to subschemas.
/// A reference that could mean many places makes one to each; a person does not write a document that multiplies so.
pub(super) const LINKS_MAX: usize = 200_000;

/// The graph; node 0 is the document.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) nodes: Vec<Node>,
    /// Bytes of all different patterns, compiled.
    pub(super) patterns_bytes: usize,
    /// Whether a pattern needs an engine that backtracks.
    pub(super) is_backtracking: bool,
    /// Pointers to references to definitions that are missing, where that is tolerated.
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

/// What is accepted in a document, depending on its source.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShapeRules {
    pub(super) patterns: PatternRules,
    pub(super) forgives_missing_definitions: bool,
}

/// One subschema, and the subschemas that it leads to.
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
    schema_error(path, format!("`{reference}` cannot be resolved inside the schema, and nothing is fetched"))
}

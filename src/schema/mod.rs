//! JSON Schema (Draft 2020-12): compiled once at registration, checked at every call.
//!
//! Validation is the `jsonschema` crate's, unchanged. This layer adds what a server needs that accepts schemas from
//! untrusted clients: nothing is ever fetched, an error has the path in the schema, failures have short messages and a
//! bounded number, and neither stack, time nor memory can be exhausted. The crate recurses along schema and
//! instance without a limit and lists failures without memoization, so a small schema can ask for 2^100
//! steps, and a short pattern for hours. What a schema takes compiled (`budget`, `pattern`) and what a check may cost
//! (`shape`, `cost`, `work`, `walk`) is measured from outside, before it can happen.

mod applicator;
mod budget;
mod cost;
mod extent;
mod failure;
mod functions;
mod pattern;
pub(crate) mod reference;
mod shape;
mod walk;
mod work;

pub(crate) use functions::prefixed;
pub(crate) use functions::{FunctionParam, FunctionSchemas};

use std::borrow::Cow;
use std::error::Error;

use corosensei::stack::DefaultStack;
use jsonschema::{PatternOptions, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

pub(crate) use budget::SchemaBudget;
use budget::SchemaCharge;
use extent::Extent;
#[cfg(test)]
pub(crate) use failure::FAILURES_LISTED_MAX;
pub use failure::Failure;
use pattern::PatternRules;
pub(crate) use pattern::{CLIENT_PATTERN_BYTES_MAX, PATTERN_BACKTRACKS_MAX, PATTERN_BYTES_MAX};
use shape::{MissingDefinition, Shape, ShapeRules};
use work::Work;

/// Deepest nesting of a schema document.
/// Above the depth of any message (100), so that only a file can reach it.
pub(crate) const SCHEMA_DEPTH_MAX: usize = 128;

/// Deepest instance that is checked: the depth of values on the wire (100) and what wraps them.
pub(crate) const INSTANCE_DEPTH_MAX: usize = 128;

/// Most steps of one check: about a fifth of a second, for which the other sessions of a shard wait.
/// A step is one visit of a subschema to a value, one comparison, or eight bytes under a plain pattern.
pub(crate) const CHECK_STEPS_MAX: u64 = 20_000_000;

/// Most steps that are spent on listing failures, each of which costs memory; beyond it only the verdict is returned.
pub(crate) const LISTING_STEPS_MAX: u64 = 200_000;

/// Most bytes of values that the listed failures may keep copies of; beyond it only the verdict is returned.
pub(crate) const LISTING_BYTES_MAX: u64 = 32 << 20;

/// Most warnings of one schema. A person fixes the first few and tries again.
pub(crate) const WARNINGS_LISTED_MAX: usize = 16;

/// Subschemas one inside the other, over all levels of an instance, that the caller's stack is trusted with.
/// One takes about 1 KiB in a debug build, and a coroutine of the runtime has 1 MiB to spare.
const INLINE_FRAMES_MAX: usize = 640;

/// Subschemas of the metaschema that are at work on one level of a schema document.
const METASCHEMA_FRAMES: usize = 8;

/// Stack for what is deeper: [`work::IN_PLACE_DEPTH_MAX`] times [`INSTANCE_DEPTH_MAX`] frames.
const DEEP_STACK_BYTES: usize = 32 << 20;

const _: () = assert!(work::IN_PLACE_DEPTH_MAX * INSTANCE_DEPTH_MAX * 2048 <= DEEP_STACK_BYTES);

const DRAFT_2020_12: &str = "https://json-schema.org/draft/2020-12/schema";

/// Where a schema comes from, which decides what it may contain.
#[derive(Debug, Clone, Copy)]
pub enum SchemaSource<'a> {
    /// The operator's declarations and the server's own code. Look-around is allowed, and every reference must resolve.
    Operator,
    /// An executable that serves bindings: as the operator's, but a missing definition accepts any value.
    Executable,
    /// A client: no look-around, a missing definition accepts any value, and compiled schemas are charged.
    Client(&'a SchemaBudget),
}

impl SchemaSource<'_> {
    fn rules(self) -> ShapeRules {
        let patterns = match self {
            Self::Operator | Self::Executable => {
                PatternRules { automaton_bytes_max: PATTERN_BYTES_MAX, allows_look_around: true }
            }
            Self::Client(_) => {
                PatternRules { automaton_bytes_max: CLIENT_PATTERN_BYTES_MAX, allows_look_around: false }
            }
        };
        ShapeRules { patterns, forgives_missing_definitions: !matches!(self, Self::Operator) }
    }

    /// Charges the bytes of a schema; nothing if the source has no budget.
    fn charge(self, bytes: usize) -> Result<Option<SchemaCharge>, SchemaError> {
        let Self::Client(budget) = self else {
            return Ok(None);
        };
        budget.charge(bytes).map(Some).ok_or_else(|| {
            let (left, max) = (budget.bytes_max().saturating_sub(budget.used()), budget.bytes_max());
            let message = format!(
                "expected schemas of at most {max} bytes compiled for a connection: this one takes {bytes}, {left} are left"
            );
            schema_error("", message)
        })
    }
}

/// Why a schema was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct SchemaError {
    /// JSON Pointer into the schema; empty for the schema itself.
    pub path: String,
    /// What was wrong and what was expected.
    pub message: String,
}

/// Something in a schema that was accepted and is probably a mistake.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaWarning {
    /// JSON Pointer into the schema.
    pub path: String,
    /// What is wrong and how it is understood.
    pub message: String,
}

/// Why a value was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckError {
    /// It does not match; in the schema's order.
    Invalid(Vec<Failure>),
    /// The check would take more than `CHECK_STEPS_MAX` steps, and was not made.
    TooCostly,
}

impl CheckError {
    /// What is wrong with the value, as failures.
    pub fn into_failures(self) -> Vec<Failure> {
        match self {
            Self::Invalid(failures) => failures,
            Self::TooCostly => {
                vec![Failure::at_root("the value is too large to check against its schema")]
            }
        }
    }
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    shape: Shape,
    work: Work,
    warnings: Vec<SchemaWarning>,
    _charge: Option<SchemaCharge>,
}

impl Schema {
    /// Compiles a schema that is valid, complete in itself and cheap enough to keep and to check.
    pub fn compile(schema: &Value, source: SchemaSource<'_>) -> Result<Self, SchemaError> {
        let Some(Extent { depth, .. }) = Extent::of(schema, SCHEMA_DEPTH_MAX) else {
            return Err(schema_error("", format!("expected at most {SCHEMA_DEPTH_MAX} levels")));
        };
        let document_bytes = budget::document_bytes(schema);
        // Before anything is made of a document that is too large; the charge is dropped again.
        drop(source.charge(document_bytes)?);
        let shape = Shape::of(schema, source.rules())?;
        let schema = without_missing_definitions(schema, &shape.missing_definitions)?;
        let work = Work::of(&shape)?;
        if let SchemaSource::Client(budget) = source {
            budget.add_survey_steps(work.survey_steps);
        }
        let charge = source.charge(document_bytes + shape.patterns_bytes + work.markers_bytes)?;
        // Compiling goes down the document, and checking it against the metaschema takes some frames a level.
        let validator = on_stack_for(depth * METASCHEMA_FRAMES, || build(&schema, shape.is_backtracking))
            .map_err(|_| schema_error("", "not enough stack to compile the schema"))?
            .map_err(|error| build_error(&error, &shape))?;
        let warnings = shape.missing_definitions.iter().take(WARNINGS_LISTED_MAX).map(to_warning).collect();
        Ok(Self { validator, shape, work, warnings, _charge: charge })
    }

    /// What was accepted although it is probably a mistake.
    pub fn warnings(&self) -> &[SchemaWarning] {
        &self.warnings
    }

    /// Checks a value against the schema; the failures are listed in the schema's order.
    pub fn check(&self, instance: &Value) -> Result<(), CheckError> {
        let Some(extent) = Extent::of(instance, INSTANCE_DEPTH_MAX) else {
            let failure = Failure::at_root(format!("expected at most {INSTANCE_DEPTH_MAX} levels"));
            return Err(CheckError::Invalid(vec![failure]));
        };
        let frames = self.work.in_place_depth * extent.depth;
        on_stack_for(frames, || self.check_here(instance, &extent)).unwrap_or_else(|_| {
            Err(CheckError::Invalid(vec![Failure::at_root("not enough stack to check the value")]))
        })
    }

    fn check_here(&self, instance: &Value, extent: &Extent) -> Result<(), CheckError> {
        let is_affordable = self.work.is_affordable(extent, CHECK_STEPS_MAX)
            || walk::is_check_within(&self.shape, instance, CHECK_STEPS_MAX);
        if !is_affordable {
            return Err(CheckError::TooCostly);
        }
        if self.validator.is_valid(instance) {
            return Ok(());
        }
        if !walk::is_listing_within(&self.shape, instance, LISTING_STEPS_MAX, LISTING_BYTES_MAX) {
            let failure = Failure::at_root("does not match the schema; too large to say where");
            return Err(CheckError::Invalid(vec![failure]));
        }
        Err(CheckError::Invalid(failure::list(self.validator.iter_errors(instance))))
    }
}

/// The document without its unresolved references: each is replaced by a schema that accepts any value.
fn without_missing_definitions<'a>(
    schema: &'a Value,
    missing: &[MissingDefinition],
) -> Result<Cow<'a, Value>, SchemaError> {
    let mut schema = Cow::Borrowed(schema);
    for MissingDefinition { path, reference } in missing {
        let parent = path.strip_suffix("/$ref").and_then(|parent| schema.to_mut().pointer_mut(parent));
        // A subschema that only a reference leads to has no pointer of its own.
        let Some(Value::Object(members)) = parent else {
            return Err(shape::unresolved(path, reference));
        };
        members.shift_remove("$ref");
    }
    Ok(schema)
}

fn to_warning(missing: &MissingDefinition) -> SchemaWarning {
    let reference = failure::shortened(&missing.reference);
    let message = format!("`{reference}` is missing from the schema and is treated as accepting any value");
    SchemaWarning { path: missing.path.clone(), message }
}

/// Refuses everything that is not in the document or among the crate's own metaschemas.
struct NoRemoteSchemas;

impl Retrieve for NoRemoteSchemas {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
        Err("it is not part of the schema, and nothing is fetched".into())
    }
}

/// The sizes of patterns were measured before; the engine's own limits are there for what it adds to them.
fn build(schema: &Value, is_backtracking: bool) -> Result<Validator, ValidationError<'static>> {
    let options = jsonschema::options().with_retriever(NoRemoteSchemas);
    let size_limit = 2 * PATTERN_BYTES_MAX;
    let options = if is_backtracking {
        options.with_pattern_options(
            PatternOptions::fancy_regex()
                .backtrack_limit(PATTERN_BACKTRACKS_MAX)
                .size_limit(size_limit)
                .dfa_size_limit(pattern::STATE_CACHE_BYTES_MAX),
        )
    } else {
        options.with_pattern_options(
            PatternOptions::regex().size_limit(size_limit).dfa_size_limit(pattern::STATE_CACHE_BYTES_MAX),
        )
    };
    options.build(schema)
}

/// The crate would silently follow the rules of another draft, also in a part of the document.
fn is_supported_draft(draft: &str) -> bool {
    draft.trim_end_matches('#') == DRAFT_2020_12
}

fn unsupported_draft(path: String, draft: &str) -> SchemaError {
    schema_error(path, format!("expected {DRAFT_2020_12}, got {}", failure::shortened(draft)))
}

/// The crate reports the path of a wrong keyword, but not that of a reference.
fn build_error(error: &ValidationError<'_>, shape: &Shape) -> SchemaError {
    let dangling = match error.kind() {
        jsonschema::error::ValidationErrorKind::Referencing(_) => shape.foreign_reference(),
        _ => None,
    };
    match dangling {
        Some((path, reference)) => shape::unresolved(path, reference),
        None => schema_error(error.instance_path().as_str(), failure::message(error)),
    }
}

/// Runs on the caller's stack if that is large enough, else on a larger one. On the same thread either way: the engine of the
/// patterns keeps a cache for every thread that it has seen.
fn on_stack_for<T>(frames: usize, run: impl FnOnce() -> T) -> std::io::Result<T> {
    if frames <= INLINE_FRAMES_MAX {
        return Ok(run());
    }
    Ok(corosensei::on_stack(DefaultStack::new(DEEP_STACK_BYTES)?, run))
}

fn schema_error(path: impl Into<String>, message: impl Into<String>) -> SchemaError {
    SchemaError { path: path.into(), message: message.into() }
}

#[cfg(test)]
mod tests;

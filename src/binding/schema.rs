//! JSON Schema (Draft 2020-12): compiled once at registration, checked at every call.
//!
//! Validation is the `jsonschema` crate's, unchanged. What is added is what a server needs that takes schemas from
//! strangers: nothing is ever fetched, a refusal says where in the schema the fault is, failures are told in our words
//! and in bounded number, and neither the stack nor the clock can be exhausted. The crate recurses along schema and
//! instance without a limit and lists failures without memory of what it saw, so a small schema can ask for 2^100
//! steps; `shape` measures that from outside, before it can happen.

mod failure;
mod shape;
mod work;

use std::error::Error;

use jsonschema::{PatternOptions, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

pub use failure::{FAILURES_LISTED_MAX, Failure, MESSAGE_CHARS_MAX};
use shape::Shape;
use work::Work;

/// Deepest nesting of a schema document.
/// Above the depth of any message (100), so that only a file can reach it.
pub const SCHEMA_DEPTH_MAX: usize = 128;

/// Deepest instance that is checked: the depth of values on the wire (100) and what wraps them.
pub const INSTANCE_DEPTH_MAX: usize = 128;

/// Most backtracking steps of one pattern on one string.
/// Only patterns with lookaround or back references backtrack; this many take about a millisecond.
pub const PATTERN_BACKTRACKS_MAX: usize = 50_000;

/// Largest compiled pattern: what the validator allows by itself.
pub const PATTERN_BYTES_MAX: usize = 10 << 20;

/// Memory for the compiled patterns of one schema, shared out evenly.
/// Three may be as large as a pattern can be (`\p{L}{1,100}` takes a few mebibytes); of many, each has to be plain.
pub const PATTERNS_BYTES_MAX: usize = 32 << 20;

/// Most steps of one check: about half a second.
/// A step is one visit of a subschema to a value.
pub const CHECK_STEPS_MAX: u64 = 50_000_000;

/// Most steps that are spent on listing failures, each of which costs memory; beyond it only the verdict is given.
pub const LISTING_STEPS_MAX: u64 = 200_000;

/// Subschemas one inside the other, over all levels of an instance, that the caller's stack is trusted with.
/// One takes about 1 KiB in a debug build, and a coroutine of the runtime has 1 MiB to spare.
const INLINE_FRAMES_MAX: usize = 640;

/// Subschemas of the metaschema that are at work on one level of a schema document.
const METASCHEMA_FRAMES: usize = 8;

/// Stack for what is deeper: [`work::IN_PLACE_DEPTH_MAX`] times [`INSTANCE_DEPTH_MAX`] frames.
const DEEP_STACK_BYTES: usize = 32 << 20;

const _: () = assert!(work::IN_PLACE_DEPTH_MAX * INSTANCE_DEPTH_MAX * 2048 <= DEEP_STACK_BYTES);

const DRAFT_2020_12: &str = "https://json-schema.org/draft/2020-12/schema";

/// Why a schema was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct SchemaError {
    /// JSON Pointer into the schema; empty for the schema itself.
    pub path: String,
    /// What was wrong and what was expected.
    pub message: String,
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    shape: Shape,
    work: Work,
}

impl Schema {
    /// Compiles a schema that is valid, complete in itself and cheap enough to check.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let Some(depth) = depth_within(schema, SCHEMA_DEPTH_MAX) else {
            return Err(refused("", format!("expected at most {SCHEMA_DEPTH_MAX} levels")));
        };
        refuse_other_drafts(schema)?;
        let shape = Shape::of(schema)?;
        let work = Work::of(&shape)?;
        // Compiling goes down the document, and checking it against the metaschema takes some frames a level.
        let validator = on_stack_for(depth * METASCHEMA_FRAMES, || build(schema, shape.pattern_count))
            .map_err(|_| refused("", "no thread to compile the schema on"))?
            .map_err(|error| build_error(&error, &shape))?;
        Ok(Self { validator, shape, work })
    }

    /// Holds a value against the schema; the failures are listed in the schema's order.
    pub fn check(&self, instance: &Value) -> Result<(), Vec<Failure>> {
        let Some(depth) = depth_within(instance, INSTANCE_DEPTH_MAX) else {
            return Err(vec![Failure::at_root(format!("expected at most {INSTANCE_DEPTH_MAX} levels"))]);
        };
        if !self.work.is_affordable(instance, CHECK_STEPS_MAX) {
            return Err(vec![Failure::at_root("too large a value for a schema with so many alternatives")]);
        }
        on_stack_for(self.work.in_place_depth * depth, || self.check_here(instance))
            .unwrap_or_else(|_| Err(vec![Failure::at_root("no thread to check the value on")]))
    }

    fn check_here(&self, instance: &Value) -> Result<(), Vec<Failure>> {
        if self.validator.is_valid(instance) {
            return Ok(());
        }
        if !work::is_walk_within(&self.shape, instance, LISTING_STEPS_MAX) {
            return Err(vec![Failure::at_root("does not match the schema; too large to say where")]);
        }
        Err(failure::list(self.validator.iter_errors(instance)))
    }
}

/// Refuses everything that is not in the document or among the crate's own metaschemas.
struct NothingRemote;

impl Retrieve for NothingRemote {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
        Err("it is not part of the schema, and nothing is fetched".into())
    }
}

fn build(schema: &Value, pattern_count: usize) -> Result<Validator, ValidationError<'static>> {
    let pattern_bytes = PATTERN_BYTES_MAX.min(PATTERNS_BYTES_MAX / pattern_count.max(1));
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(PATTERN_BACKTRACKS_MAX)
        .size_limit(pattern_bytes)
        .dfa_size_limit(pattern_bytes.min(1 << 20));
    jsonschema::options().with_retriever(NothingRemote).with_pattern_options(patterns).build(schema)
}

/// The crate would quietly follow another draft's rules.
fn refuse_other_drafts(schema: &Value) -> Result<(), SchemaError> {
    match schema.get("$schema").and_then(Value::as_str) {
        Some(draft) if draft.trim_end_matches('#') != DRAFT_2020_12 => {
            Err(refused("/$schema", format!("expected {DRAFT_2020_12}, got {}", failure::shortened(draft))))
        }
        _ => Ok(()),
    }
}

/// The crate says where a keyword is wrong, but not where a reference is.
fn build_error(error: &ValidationError<'_>, shape: &Shape) -> SchemaError {
    let dangling = match error.kind() {
        jsonschema::error::ValidationErrorKind::Referencing(_) => shape.foreign_reference(),
        _ => None,
    };
    match dangling {
        Some((path, reference)) => shape::unresolved(path, reference),
        None => refused(error.instance_path().as_str(), failure::message(error)),
    }
}

/// Runs here if the caller's stack will do, else on a thread of its own, which costs some 50 µs.
fn on_stack_for<T: Send>(frames: usize, run: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    if frames <= INLINE_FRAMES_MAX {
        return Ok(run());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK_BYTES).spawn_scoped(scope, run)?;
        thread.join().map_err(|_| std::io::Error::other("panicked"))
    })
}

/// How many levels a value has, if no more than `depth_max`. Without recursion, so that it can be asked of anything.
fn depth_within(value: &Value, depth_max: usize) -> Option<usize> {
    if !is_nested(&value) {
        return (depth_max > 0).then_some(1);
    }
    let mut deepest = 1;
    let mut pending = vec![(value, 1)];
    while let Some((value, depth)) = pending.pop() {
        if depth > depth_max {
            return None;
        }
        deepest = deepest.max(depth);
        match value {
            Value::Object(members) => {
                pending.extend(members.values().filter(is_nested).map(|v| (v, depth + 1)))
            }
            Value::Array(items) => pending.extend(items.iter().filter(is_nested).map(|v| (v, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Some(deepest)
}

fn is_nested(value: &&Value) -> bool {
    value.is_object() || value.is_array()
}

fn refused(path: impl Into<String>, message: impl Into<String>) -> SchemaError {
    SchemaError { path: path.into(), message: message.into() }
}

#[cfg(test)]
mod tests;

//! Messages for a value that does not match its schema.
//!
//! The validator's texts quote the value whole, which may be megabytes and may be private. These say what was expected
//! and what type was there. A failed alternative is reported by the one alternative that was plausibly intended,
//! because "matches none of them" does not help to fix it.

use crate::protocol::declaration::type_name;
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde::Serialize;
use serde_json::Value;

/// Most failures that are listed for one value.
/// A person fixes the first few and tries again.
pub(crate) const FAILURES_LISTED_MAX: usize = 64;

/// Longest message. Parts that quote are cut to fit.
pub(crate) const MESSAGE_CHARS_MAX: usize = 400;

/// Longest quotation of a value, a name or a pattern.
const QUOTE_CHARS_MAX: usize = 80;

/// Most names in one message.
const NAMES_LISTED_MAX: usize = 8;

/// One thing that is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// JSON Pointer into the value; empty for the value itself.
    pub path: String,
    /// What was expected and what was there.
    pub message: String,
}

impl Failure {
    pub(super) fn at_root(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }
}

/// The first [`FAILURES_LISTED_MAX`] failures, no two the same.
pub(super) fn list<'a>(errors: impl Iterator<Item = ValidationError<'a>>) -> Vec<Failure> {
    let mut failures = Vec::new();
    for error in errors {
        add_failures(&error, &mut failures);
        if failures.len() >= FAILURES_LISTED_MAX {
            break;
        }
    }
    if failures.is_empty() {
        failures.push(Failure::at_root("does not match the schema"));
    }
    failures
}

fn add_failures(error: &ValidationError<'_>, failures: &mut Vec<Failure>) {
    if let Some(branch) = branches_of(error).and_then(|branches| intended_branch(error, branches)) {
        for inner in branch {
            add_failures(inner, failures);
        }
        return;
    }
    let failure = Failure { path: error.instance_path().as_str().to_owned(), message: message(error) };
    if failures.len() < FAILURES_LISTED_MAX && !failures.contains(&failure) {
        failures.push(failure);
    }
}

fn branches_of<'e>(error: &'e ValidationError<'_>) -> Option<&'e [Vec<ValidationError<'static>>]> {
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => Some(context),
        _ => None,
    }
}

/// The only alternative that accepts this kind of value, failing deeper inside or by another rule.
fn intended_branch<'e>(
    error: &ValidationError<'_>,
    branches: &'e [Vec<ValidationError<'static>>],
) -> Option<&'e [ValidationError<'static>]> {
    let mut plausible = branches.iter().filter(|branch| !branch.iter().any(|inner| is_misfit(error, inner)));
    let branch = plausible.next()?;
    if plausible.next().is_some() || branch.is_empty() { None } else { Some(branch) }
}

/// Whether an alternative was not intended at all: another type, or another value of the discriminator.
fn is_misfit(outer: &ValidationError<'_>, inner: &ValidationError<'_>) -> bool {
    let same_place = outer.instance_path() == inner.instance_path();
    match inner.kind() {
        Kind::Type { .. } | Kind::Enum { .. } | Kind::FalseSchema => same_place,
        Kind::Constant { .. } => true,
        _ => false,
    }
}

/// The message, in at most [`MESSAGE_CHARS_MAX`] characters.
pub(super) fn message(error: &ValidationError<'_>) -> String {
    let value = error.instance();
    let text = match error.kind() {
        Kind::Type { kind } => format!("expected {}, got {}", expected_types(kind), type_name(value)),
        Kind::Required { property } => format!("missing property {}", quoted(property)),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("unexpected {}", listed("property", "properties", unexpected))
        }
        Kind::Enum { options } => format!("expected one of {}, got {}", options_of(options), quoted(value)),
        Kind::Constant { expected_value } => {
            format!("expected {}, got {}", quoted(expected_value), quoted(value))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => no_alternative(context, value),
        Kind::OneOfMultipleValid { .. } => {
            "expected to match exactly one alternative, matches several".to_owned()
        }
        Kind::Not { .. } => "matches a schema that it must not match".to_owned(),
        Kind::FalseSchema => "no value is allowed here".to_owned(),
        Kind::PropertyNames { error } => {
            format!("property name {}: {}", quoted(error.instance()), message(error))
        }
        Kind::Referencing(error) => error.to_string(),
        Kind::Custom { message, .. } => message.clone(),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "the pattern takes too long to match".to_owned()
        }
        kind => text_message(kind, value).unwrap_or_else(|| size_message(kind, value)),
    };
    cut(&text, MESSAGE_CHARS_MAX)
}

/// Rules on the contents of strings.
fn text_message(kind: &Kind, value: &Value) -> Option<String> {
    Some(match kind {
        Kind::Pattern { pattern } => {
            format!("expected a string that matches /{}/, got {}", shortened(pattern), quoted(value))
        }
        Kind::Format { format } if format == "regex" => {
            format!("expected a regular expression of reasonable size, got {}", quoted(value))
        }
        Kind::Format { format } => format!("expected {}, got {}", shortened(format), quoted(value)),
        Kind::MinLength { limit } => format!("expected at least {limit} characters, got {}", length(value)),
        Kind::MaxLength { limit } => format!("expected at most {limit} characters, got {}", length(value)),
        Kind::ContentEncoding { content_encoding } => {
            format!("expected {} text", shortened(content_encoding))
        }
        Kind::ContentMediaType { content_media_type } => {
            format!("expected {}", shortened(content_media_type))
        }
        Kind::FromUtf8 { .. } => "expected UTF-8".to_owned(),
        _ => return None,
    })
}

/// Rules on numbers and on how many members there are.
fn size_message(kind: &Kind, value: &Value) -> String {
    match kind {
        Kind::Minimum { limit } => format!("expected at least {limit}, got {}", quoted(value)),
        Kind::Maximum { limit } => format!("expected at most {limit}, got {}", quoted(value)),
        Kind::ExclusiveMinimum { limit } => format!("expected more than {limit}, got {}", quoted(value)),
        Kind::ExclusiveMaximum { limit } => format!("expected less than {limit}, got {}", quoted(value)),
        Kind::MultipleOf { multiple_of } => {
            format!("expected a multiple of {multiple_of}, got {}", quoted(value))
        }
        Kind::MinItems { limit } => format!("expected at least {limit} items, got {}", length(value)),
        Kind::MaxItems { limit } => format!("expected at most {limit} items, got {}", length(value)),
        Kind::AdditionalItems { limit } => format!("expected at most {limit} items, got {}", length(value)),
        Kind::MinProperties { limit } => {
            format!("expected at least {limit} properties, got {}", length(value))
        }
        Kind::MaxProperties { limit } => {
            format!("expected at most {limit} properties, got {}", length(value))
        }
        Kind::Contains => "too few or too many items match `contains`".to_owned(),
        Kind::UniqueItems => "expected unique items".to_owned(),
        Kind::UnevaluatedItems { .. } => "has items that no part of the schema allows".to_owned(),
        _ => "does not match the schema".to_owned(),
    }
}

/// If the alternatives differ by type alone, the message lists the types.
fn no_alternative(branches: &[Vec<ValidationError<'static>>], value: &Value) -> String {
    let mut types: Vec<String> = Vec::new();
    for branch in branches {
        match branch.first().map(ValidationError::kind) {
            Some(Kind::Type { kind }) if branch.len() == 1 && types.len() < NAMES_LISTED_MAX => {
                types.push(expected_types(kind));
            }
            _ => {
                return format!("matches none of {} alternatives, got {}", branches.len(), type_name(value));
            }
        }
    }
    types.dedup();
    format!("expected {}, got {}", types.join(" or "), type_name(value))
}

fn expected_types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.as_str().to_owned(),
        TypeKind::Multiple(several) => {
            let names: Vec<&str> = several.iter().map(|one| one.as_str()).collect();
            names.join(" or ")
        }
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn options_of(options: &Value) -> String {
    let Some(options) = options.as_array() else {
        return quoted(options);
    };
    let mut names: Vec<String> = options.iter().take(NAMES_LISTED_MAX).map(quoted).collect();
    if options.len() > NAMES_LISTED_MAX {
        names.push(format!("… ({} in all)", options.len()));
    }
    names.join(", ")
}

fn listed(one: &str, several: &str, names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(NAMES_LISTED_MAX).map(|name| format!("\"{}\"", shortened(name))).collect();
    let noun = if names.len() == 1 { one } else { several };
    let more = if names.len() > NAMES_LISTED_MAX { ", …" } else { "" };
    format!("{noun} {}{more}", shown.join(", "))
}

/// Scalars as JSON, cut; of anything larger only the type.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", shortened(text)),
        Value::Array(_) | Value::Object(_) => type_name(value).to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A text in quotation marks, cut.
pub(super) fn quoted_text(text: &str) -> String {
    format!("\"{}\"", shortened(text))
}

/// The start of a text, for a quotation in a message.
pub(super) fn shortened(text: &str) -> String {
    cut(text, QUOTE_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

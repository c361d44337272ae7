//! The check of a value that crosses a call: every input and output of a server binding, a client binding or a typed
//! function is checked here and refused with the same error.

mod tagged;

use serde_json::{Value, json};

use super::typescript;

use crate::protocol::declaration::Declaration;
use crate::rpc::{ErrorObject, Kind};
use crate::schema::{CheckError, Failure, Schema};

/// Failures that the message names; all of them are in `data.errors`.
const FAILURES_SHOWN_MAX: usize = 8;

/// Which value of a call is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// What the caller passes.
    Input,
    /// What the callee returns.
    Output,
}

impl Direction {
    /// The kind of the error for a value that does not match its schema.
    fn kind(self) -> Kind {
        match self {
            Self::Input => Kind::InvalidInput,
            Self::Output => Kind::InvalidOutput,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// Checks a value of a call of `name`; without a schema every value is accepted.
pub(crate) fn check_value(
    direction: Direction,
    name: &str,
    schema: Option<&Schema>,
    value: &Value,
) -> Result<(), ErrorObject> {
    let Some(schema) = schema else {
        return Ok(());
    };
    schema.check(value).map_err(|error| refusal(direction, name, value, &error))
}

/// Checks what a script passes to a binding, and refuses it with the binding's signature. A `Date`, `Set` or `Map` where
/// the schema wants a text, a list or an object becomes that: JSON has no other form for it.
pub(crate) fn check_input(
    declaration: &Declaration,
    schema: Option<&Schema>,
    value: &mut Value,
) -> Result<(), ErrorObject> {
    let Some(schema) = schema else { return Ok(()) };
    let Err(error) = schema.check(value) else { return Ok(()) };
    if let CheckError::Invalid(failures) = &error
        && let Some(converted) = tagged::convert(value, failures, schema)
    {
        *value = converted;
        return Ok(());
    }
    let refused = refusal(Direction::Input, &declaration.name, value, &error);
    if !refused.is(Kind::InvalidInput) {
        return Err(refused);
    }
    let message = format!("{}; {}", refused.message, typescript::signature(declaration));
    Err(ErrorObject { message, ..refused })
}

/// The error for a value that does not match its schema, or that is too costly to check.
fn refusal(direction: Direction, name: &str, value: &Value, error: &CheckError) -> ErrorObject {
    let place = direction.as_str();
    let failures = match error {
        CheckError::Invalid(failures) => failures,
        CheckError::TooCostly => {
            let message = format!("{name}: {place}: the value is too large to check against its schema");
            return ErrorObject::new(Kind::ValidationLimit, message);
        }
    };
    let failures: Vec<Failure> = failures.iter().map(|failure| tagged::explain(value, failure)).collect();
    let described = failures.iter().take(FAILURES_SHOWN_MAX).map(|failure| match failure.path.as_str() {
        "" if direction == Direction::Input => failure.message.clone(),
        path => format!("{place}{path}: {}", failure.message),
    });
    let mut described: Vec<String> = described.collect();
    if failures.len() > FAILURES_SHOWN_MAX {
        described.push(format!("{} more", failures.len() - FAILURES_SHOWN_MAX));
    }
    let errors: Vec<Value> =
        failures.iter().map(|failure| json!({"path": failure.path, "message": failure.message})).collect();
    ErrorObject::new(direction.kind(), format!("{name}: {}", described.join(", "))).with("errors", errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::SchemaSource;

    #[test]
    fn refusal_names_the_binding_the_direction_and_the_place() {
        let schema = json!({"properties": {"id": {"type": "string"}}});
        let schema = Schema::compile(&schema, SchemaSource::Operator).unwrap();
        let check = |direction| check_value(direction, "getOrder", Some(&schema), &json!({"id": 1}));
        let error = check(Direction::Input).unwrap_err();
        assert!(error.is(Kind::InvalidInput));
        assert!(error.message.starts_with("getOrder: input/id: "), "{}", error.message);
        assert!(check(Direction::Output).unwrap_err().is(Kind::InvalidOutput));
        assert_eq!(check_value(Direction::Input, "getOrder", None, &json!(1)), Ok(()));
    }

    fn declared(input: Value) -> (Declaration, Schema) {
        let schema = Schema::compile(&input, SchemaSource::Operator).unwrap();
        (Declaration { input: Some(input), ..Declaration::named("kv.get") }, schema)
    }

    #[test]
    fn refused_input_lists_all_failures_and_the_signature() {
        let (declaration, schema) =
            declared(json!({"type": "object", "properties": {"key": {"type": "string"}},
            "required": ["key"], "additionalProperties": false}));
        let error = check_input(&declaration, Some(&schema), &mut json!({"id": 1})).unwrap_err();
        let listed: Vec<&str> = error.message.split("; ").collect();
        assert!(listed[0].contains("unexpected property \"id\""), "{}", error.message);
        assert!(listed[0].contains("missing property \"key\""), "{}", error.message);
        assert_eq!(listed[1], "kv.get(input: { key: string })");
    }

    #[test]
    fn dates_sets_and_maps_become_what_the_schema_wants() {
        let (declaration, schema) = declared(json!({"type": "object", "properties": {
            "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"type": "string"}}, "by": {"type": "object", "additionalProperties": {"type": "number"}}},
            "additionalProperties": false}));
        let mut input = json!({"at": {"$date": "2026-01-02T03:04:05.000Z"},
            "tags": {"$set": ["a"]}, "by": {"$map": [["x", 1]]}});
        check_input(&declaration, Some(&schema), &mut input).unwrap();
        assert_eq!(input, json!({"at": "2026-01-02T03:04:05.000Z", "tags": ["a"], "by": {"x": 1}}));
    }

    #[test]
    fn value_without_a_form_is_named_as_in_javascript() {
        let (declaration, schema) = declared(
            json!({"type": "object", "properties": {"n": {"type": "number"}, "s": {"type": "string"}}}),
        );
        let mut input = json!({"n": {"$date": "2026-01-02T03:04:05.000Z"}, "s": {"$map": [[1, 2]]}});
        let message = check_input(&declaration, Some(&schema), &mut input).unwrap_err().message;
        assert!(message.contains("input/n: expected number, got a Date: pass date.getTime()"), "{message}");
        assert!(message.contains("input/s: expected string, got a Map"), "{message}");
        assert!(!message.contains('$'), "{message}");
    }
}

//! The check of a value that crosses a call: every input and output of a server binding, a client binding or a typed
//! function is checked here and refused with the same error.

use serde_json::{Value, json};

use crate::rpc::{ErrorObject, Kind};
use crate::schema::{CheckError, Schema};

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
    schema.check(value).map_err(|error| refusal(direction, name, &error))
}

/// The error for a value that does not match its schema, or that is too costly to check.
fn refusal(direction: Direction, name: &str, error: &CheckError) -> ErrorObject {
    let place = direction.as_str();
    let failures = match error {
        CheckError::Invalid(failures) => failures,
        CheckError::TooCostly => {
            let message = format!("{name}: {place}: the value is too large to check against its schema");
            return ErrorObject::new(Kind::ValidationLimit, message);
        }
    };
    let first = failures.first().map(|failure| format!("{}: {}", failure.path, failure.message));
    let errors: Vec<Value> =
        failures.iter().map(|failure| json!({"path": failure.path, "message": failure.message})).collect();
    ErrorObject::new(direction.kind(), format!("{name}: {place}{}", first.unwrap_or_default()))
        .with("errors", errors)
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
}

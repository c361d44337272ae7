//! What a function or a binding is called with, and what a function gives: text from and to the client, trees from and to
//! handlers, and trees for a moment where a schema is to be checked.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::engine::Arguments;
use super::super::value::Encoded;
use super::Session;
use super::invokes::InvokedBy;
use crate::binding::{invalid, tags};
use crate::observe;
use crate::protocol::methods::{Payload, RawPayload};
use crate::protocol::shape::Shape;
use crate::rpc::{ErrorObject, Kind};
use crate::schema::FunctionSchemas;

/// When an invoke makes sense again that found the budget of its connection used up.
const BUDGET_RETRY_MS: u64 = 100;

impl Session {
    /// Makes values of what the client sent, for a handler: the client is charged for what they take in memory.
    pub(super) fn read_arguments(
        &self,
        by: &mut InvokedBy,
        arguments: Arguments,
    ) -> Result<Vec<Value>, ErrorObject> {
        let payload = match arguments {
            Arguments::Trees(trees) => return Ok(trees),
            Arguments::Text(payload) => payload,
        };
        let (bytes, max) = (Shape::of(payload.text()).tree_bytes, self.parts.limits.connection_bytes_max);
        if bytes > max {
            let message = format!("the input takes more than {max} bytes in memory");
            return Err(ErrorObject::new(Kind::InvalidParams, message));
        }
        if let InvokedBy::Client(requester) = by
            && !requester.charge.try_grow(bytes)
        {
            observe::refused("bytes-in-flight");
            let message = "the requests in flight take too many bytes";
            return Err(ErrorObject::new(Kind::Busy, message).with("retryAfterMs", BUDGET_RETRY_MS));
        }
        let payload = payload.parse()?;
        tags::check_payload(&payload)?;
        Ok(match payload {
            Payload::Input(input) => vec![input],
            Payload::Args(arguments) => arguments,
        })
    }

    /// What is wrong with the arguments of a function that says what it takes. Several arguments are its own affair.
    pub(super) fn refuse_arguments(
        &self,
        schemas: Option<&FunctionSchemas>,
        reference: &str,
        arguments: &Arguments,
    ) -> Option<ErrorObject> {
        let schema = schemas?.input.as_ref()?;
        let parsed;
        let arguments = match arguments {
            Arguments::Trees(trees) => trees,
            Arguments::Text(payload) => match self.read_checked(payload) {
                Ok(trees) => {
                    parsed = trees;
                    &parsed
                }
                Err(error) => return Some(error),
            },
        };
        let [argument] = arguments.as_slice() else { return None };
        let error = schema.check(argument).err()?;
        Some(invalid(Kind::InvalidInput, reference, "input", &error))
    }

    /// Makes values of arguments for the time of a check, and refuses malformed tags in them.
    fn read_checked(&self, payload: &RawPayload) -> Result<Vec<Value>, ErrorObject> {
        let (RawPayload::Input(text) | RawPayload::Args(text)) = payload;
        let value = self.read_tree(text, Kind::InvalidParams)?;
        let payload = match (payload, value) {
            (RawPayload::Args(_), Value::Array(arguments)) => Payload::Args(arguments),
            (_, input) => Payload::Input(input),
        };
        tags::check_payload(&payload)?;
        Ok(match payload {
            Payload::Input(input) => vec![input],
            Payload::Args(arguments) => arguments,
        })
    }

    /// Makes a value of a text of the client, if it is not larger than a session may be.
    pub(super) fn read_tree(&self, text: &RawValue, kind: Kind) -> Result<Value, ErrorObject> {
        let max = self.parts.limits.memory_bytes_max;
        if Shape::of(text.get()).tree_bytes > max {
            return Err(ErrorObject::new(kind, format!("the value takes more than {max} bytes in memory")));
        }
        serde_json::from_str(text.get()).map_err(|error| ErrorObject::new(kind, error.to_string()))
    }
}

/// `result` of an invoke of a function of the script.
#[derive(Serialize)]
pub(super) struct Given {
    pub(super) value: Encoded,
}

/// Checks what a function gave against its schema, if it has one.
pub(super) fn check_result(schemas: Option<&FunctionSchemas>, value: &Encoded) -> Result<(), ErrorObject> {
    let Some(schema) = schemas.and_then(|schemas| schemas.output.as_ref()) else { return Ok(()) };
    let checked = match value {
        Encoded::Tree(value) => schema.check(value),
        Encoded::Text(text) => {
            let value: Value = serde_json::from_str(text.get())
                .map_err(|error| ErrorObject::new(Kind::Internal, error.to_string()))?;
            schema.check(&value)
        }
    };
    checked.map_err(|error| invalid(Kind::InvalidOutput, "the function", "output", &error))
}

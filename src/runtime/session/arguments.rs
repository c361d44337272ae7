//! What a function or a binding is called with, and what a function gives: text from and to the client, trees from and to
//! handlers, and trees for a moment where a schema is to be checked.

use serde::Serialize;
use serde_json::Value;

use super::super::engine::Arguments;
use super::super::value::Encoded;
use super::Session;
use super::invokes::CalledBy;
use crate::binding::{FunctionSchemas, invalid};
use crate::observe;
use crate::rpc::{ErrorObject, Kind};
use crate::scomp::methods::{Payload, RawPayload};
use crate::scomp::shape::Shape;

/// When an invoke makes sense again that found the budget of its connection used up.
const BUDGET_RETRY_MS: u64 = 100;

impl Session {
    /// Makes values of what the client sent, for a handler: the client is charged for what they take in memory.
    pub(super) fn read_arguments(
        &self,
        by: &mut CalledBy,
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
        if let CalledBy::Client(requester) = by
            && !requester.charge.try_grow(bytes)
        {
            observe::refused("bytes-in-flight");
            let message = "the requests in flight take too many bytes";
            return Err(ErrorObject::new(Kind::Busy, message).with("retryAfterMs", BUDGET_RETRY_MS));
        }
        Ok(match payload.parse()? {
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
        let parsed = match arguments {
            Arguments::Trees(_) => None,
            Arguments::Text(RawPayload::Input(text)) => {
                Some(self.read_tree(text, Kind::InvalidParams).map(|input| vec![input]))
            }
            Arguments::Text(RawPayload::Args(text)) => {
                let list = self.read_tree(text, Kind::InvalidParams);
                Some(list.map(|list| if let Value::Array(items) = list { items } else { vec![list] }))
            }
        };
        let arguments = match (&parsed, arguments) {
            (Some(Ok(parsed)), _) => parsed,
            (Some(Err(error)), _) => return Some(error.clone()),
            (None, Arguments::Trees(trees)) => trees,
            (None, Arguments::Text(_)) => return None,
        };
        let [argument] = arguments.as_slice() else { return None };
        let failures = schema.check(argument).err()?;
        Some(invalid(Kind::InvalidInput, reference, "input", &failures))
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
    checked.map_err(|failures| invalid(Kind::InvalidOutput, "the function", "output", &failures))
}

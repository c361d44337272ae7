//! The control bindings: what a client may ask of its session without new methods.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Requester, Session, Stop};
use crate::binding::tags;
use crate::catalog::{search, typescript};
use crate::protocol::boundary::Closing;
use crate::protocol::declaration::Declaration;
use crate::rpc::{ErrorObject, Id, Kind};

/// Longest input of a control binding: ids and words to search for are short.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Hits of a search for bindings.
const HITS_MAX: usize = 20;

/// Name, what it does, input schema.
const CONTROLS: [(&str, &str, &str); 6] = [
    (
        "session.cancel",
        "Ends an eval of this connection, running or queued, and what it waits for; without evalId the running one. The answer lists what was ended.",
        r#"{"type":"object","properties":{"evalId":{"type":["integer","string"]}},"additionalProperties":false}"#,
    ),
    ("session.info", "What the session does and uses.", r#"{"type":"object","additionalProperties":false}"#),
    (
        "session.reset",
        "Starts over with a fresh context in the same session. A running eval is cancelled; references and keys are dropped.",
        r#"{"type":"object","additionalProperties":false}"#,
    ),
    (
        "session.close",
        "Ends the session and closes the connection.",
        r#"{"type":"object","additionalProperties":false}"#,
    ),
    (
        "bindings.types",
        "The TypeScript declarations of all bindings, as one string.",
        r#"{"type":"object","additionalProperties":false}"#,
    ),
    (
        "bindings.search",
        "Finds bindings by words.",
        r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"],"additionalProperties":false}"#,
    ),
];

/// Whether a binding of that name is one of the control bindings.
fn is_control(name: &str) -> bool {
    CONTROLS.iter().any(|(known, _, _)| *known == name)
}

/// The declarations that every handshake lists.
pub fn declarations() -> Vec<Declaration> {
    CONTROLS
        .iter()
        .map(|(name, description, input)| Declaration {
            name: (*name).to_owned(),
            description: Some((*description).to_owned()),
            input: serde_json::from_str(input).ok(),
            output: None,
            effects: Vec::new(),
            hints: None,
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelInput {
    #[serde(default, rename = "evalId")]
    eval_id: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchInput {
    query: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoInput {}

type Outcome = Result<Value, ErrorObject>;

impl Session {
    /// Serves a control binding; `None` when the name is not one of them.
    pub(super) fn control(&mut self, connection: u64, name: &str, input: &str) -> Option<Outcome> {
        if !is_control(name) {
            return None;
        }
        let input = match read_input(name, input) {
            Ok(input) => input,
            Err(error) => return Some(Err(error)),
        };
        Some(match name {
            "session.cancel" => match read::<CancelInput>(name, &input) {
                Ok(CancelInput { eval_id: Some(id) }) if !(id.is_i64() || id.is_u64() || id.is_string()) => {
                    Err(wrong_input(name, "/evalId", "expected an integer or a string"))
                }
                Ok(cancel) => self.cancel(connection, cancel.eval_id.as_ref()),
                Err(error) => Err(error),
            },
            "bindings.search" => read::<SearchInput>(name, &input).map(|search| self.search(&search.query)),
            _ => match read::<NoInput>(name, &input) {
                Ok(NoInput {}) => self.plain_control(name),
                Err(error) => Err(error),
            },
        })
    }

    fn plain_control(&mut self, name: &str) -> Outcome {
        match name {
            "session.info" => Ok(self.describe()),
            "session.reset" => {
                self.reset();
                Ok(Value::Null)
            }
            "session.close" => {
                self.end(Closing::ByClient);
                Ok(Value::Null)
            }
            _ => Ok(Value::from(typescript::declarations(&self.all_declarations()))),
        }
    }

    fn cancel(&mut self, connection: u64, eval_id: Option<&Value>) -> Outcome {
        let names = |id: &Id| match (id, eval_id) {
            (_, None) => true,
            (Id::Text(text), Some(Value::String(asked))) => **text == **asked,
            (Id::Number(number), Some(Value::Number(asked))) => asked.as_u64() == Some(*number),
            (Id::Digits(digits), Some(Value::Number(asked))) => **digits == *asked.to_string(),
            (_, Some(_)) => false,
        };
        let is_meant = |requester: &Requester| requester.connection == connection && names(&requester.id);
        let mut ended = Vec::new();
        if let Some(running) = &self.state.evals.running
            && (eval_id.is_none() || running.requesters.iter().any(is_meant))
            && running.stop_requested.is_none()
        {
            ended.extend(running.requesters.iter().map(|requester| json!(requester.id)));
            self.stop_eval_soon(Stop::Cancelled);
        } else if eval_id.is_some() {
            let error = ErrorObject::new(Kind::Cancelled, "the eval was cancelled");
            ended.extend(self.drop_queued(is_meant, &error).iter().map(|id| json!(id)));
        }
        Ok(Value::Array(ended))
    }

    fn describe(&self) -> Value {
        let mut info = json!(self.info());
        info["id"] = json!(self.state.id);
        info["principal"] = json!(self.state.principal);
        info["limits"] = json!(*self.limits);
        info
    }

    fn search(&self, query: &str) -> Value {
        let hits = search::search(&self.all_declarations(), query, HITS_MAX);
        json!(
            hits.iter()
                .map(|hit| json!({"name": hit.name, "description": hit.description}))
                .collect::<Vec<_>>()
        )
    }

    fn all_declarations(&self) -> Vec<Declaration> {
        let server = self.state.catalog.iter().filter(|entry| !self.state.is_hidden_by_client(entry.name()));
        let client = self.state.client.iter().flat_map(|client| client.bindings.callable_by_scripts());
        server.chain(client).map(|entry| entry.declaration.clone()).collect()
    }
}

/// Makes a value of the input; it is short, and its tags are well formed.
fn read_input(name: &str, text: &str) -> Result<Value, ErrorObject> {
    if text.len() > INPUT_BYTES_MAX {
        return Err(wrong_input(name, "", &format!("expected at most {INPUT_BYTES_MAX} bytes")));
    }
    let input = serde_json::from_str(text).map_err(|error| wrong_input(name, "", &error.to_string()))?;
    tags::check(&input).map_err(|error| error.into_object(Kind::InvalidParams, "/input"))?;
    Ok(input)
}

fn read<T: for<'de> Deserialize<'de>>(name: &str, input: &Value) -> Result<T, ErrorObject> {
    T::deserialize(input).map_err(|error| wrong_input(name, "", &error.to_string()))
}

fn wrong_input(name: &str, path: &str, message: &str) -> ErrorObject {
    ErrorObject::new(Kind::InvalidInput, format!("{name}: input{path}: {message}"))
        .with("errors", json!([{"path": path, "message": message}]))
}

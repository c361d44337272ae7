//! The control bindings: what a client may ask of its session without new methods.

use serde::Deserialize;
use serde_json::{Value, json};

use super::tables::LABEL_BYTES_MAX;
use super::{Requester, Session, Stop};
use crate::binding::tags;
use crate::protocol::client_messages::Closing;
use crate::protocol::declaration::Declaration;
use crate::rpc::{ErrorObject, Id, Kind};

/// Longest input of a control binding: ids and words to search for are short.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Name, what it does, input schema.
const CONTROLS: [(&str, &str, &str); 10] = [
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
        "session.checkpoint",
        "Marks this moment of an idle session, to go back to with session.rewind. The oldest of more than 16 is dropped.",
        r#"{"type":"object","properties":{"label":{"type":"string"}},"additionalProperties":false}"#,
    ),
    (
        "session.checkpoints",
        "The checkpoints of the session, oldest first.",
        r#"{"type":"object","additionalProperties":false}"#,
    ),
    (
        "session.rewind",
        "Takes an idle session back to a checkpoint. Later checkpoints, and functions that were sent since, are gone.",
        r#"{"type":"object","properties":{"checkpoint":{"type":"integer"}},"required":["checkpoint"],"additionalProperties":false}"#,
    ),
    (
        "session.fork",
        "Makes a second session that goes on from this moment of an idle session, or from a checkpoint. The answer has its sessionId and token, with which another connection resumes it.",
        r#"{"type":"object","properties":{"checkpoint":{"type":"integer"}},"additionalProperties":false}"#,
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
pub(crate) fn declarations() -> Vec<Declaration> {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointInput {
    #[serde(default)]
    label: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RewindInput {
    checkpoint: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForkInput {
    #[serde(default)]
    checkpoint: Option<u64>,
}

type Outcome = Result<Value, ErrorObject>;

/// What becomes of a call of a control binding.
pub(super) enum Control {
    /// It is done.
    Done(Outcome),
    /// The host is to write about all bindings, or those that fit a query.
    Describe(Option<String>),
    /// The driver is to keep the heap, under that label.
    Checkpoint(Option<String>),
    /// The driver is to go back to the checkpoint of that number.
    Rewind(u64),
    /// The driver is to fork the session, from the checkpoint of that number or from now.
    Fork(Option<u64>),
}

impl Session {
    /// Serves a control binding; `None` when the name is not one of them.
    pub(super) fn control(&mut self, connection: u64, name: &str, input: &str) -> Option<Control> {
        if !is_control(name) {
            return None;
        }
        let input = match read_input(name, input) {
            Ok(input) => input,
            Err(error) => return Some(Control::Done(Err(error))),
        };
        let done = match name {
            "session.cancel" => match read::<CancelInput>(name, &input) {
                Ok(CancelInput { eval_id: Some(id) }) if !(id.is_i64() || id.is_u64() || id.is_string()) => {
                    Err(wrong_input(name, "/evalId", "expected an integer or a string"))
                }
                Ok(cancel) => self.cancel(connection, cancel.eval_id.as_ref()),
                Err(error) => Err(error),
            },
            "session.checkpoint" => match read::<CheckpointInput>(name, &input) {
                Ok(CheckpointInput { label: Some(label) }) if label.len() > LABEL_BYTES_MAX => {
                    let expected = format!("expected at most {LABEL_BYTES_MAX} bytes");
                    Err(wrong_input(name, "/label", &expected))
                }
                Ok(CheckpointInput { label }) => return Some(Control::Checkpoint(label)),
                Err(error) => Err(error),
            },
            "session.rewind" => match read::<RewindInput>(name, &input) {
                Ok(RewindInput { checkpoint }) => return Some(Control::Rewind(checkpoint)),
                Err(error) => Err(error),
            },
            "session.fork" => match read::<ForkInput>(name, &input) {
                Ok(ForkInput { checkpoint }) => return Some(Control::Fork(checkpoint)),
                Err(error) => Err(error),
            },
            "bindings.search" => match read::<SearchInput>(name, &input) {
                Ok(SearchInput { query }) => return Some(Control::Describe(Some(query))),
                Err(error) => Err(error),
            },
            _ => match read::<NoInput>(name, &input) {
                Ok(NoInput {}) if name == "bindings.types" => return Some(Control::Describe(None)),
                Ok(NoInput {}) => Ok(self.plain_control(name)),
                Err(error) => Err(error),
            },
        };
        Some(Control::Done(done))
    }

    fn plain_control(&mut self, name: &str) -> Value {
        match name {
            "session.info" => self.describe(),
            "session.checkpoints" => self.list_checkpoints(),
            "session.reset" => {
                self.reset();
                Value::Null
            }
            _ => {
                self.end(Closing::ByClient);
                Value::Null
            }
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
            let error = || ErrorObject::new(Kind::Cancelled, "the eval was cancelled");
            ended.extend(self.drop_queued(is_meant, error).iter().map(|id| json!(id)));
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

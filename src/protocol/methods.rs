//! The four methods and their parameters.
//!
//! A struct for each `params`, read strictly in type and leniently in unknown members: a newer client may send more
//! than we know.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::shape::{text_bytes, tree_bytes};
use crate::rpc::{ErrorObject, Kind};

/// The protocol version that is spoken.
pub const PROTOCOL: &str = "0.1";

/// Opens a connection.
pub const HANDSHAKE: &str = "handshake";
/// Runs code.
pub const EVAL: &str = "eval";
/// Calls a binding or a function.
pub const INVOKE: &str = "invoke";
/// Gives a function up; the only notification that both sides send.
pub const RELEASE_REF: &str = "release_ref";
/// Tells a client that the server no longer waits for an answer; sent only to clients that ask for it.
pub const CANCEL_INVOKE: &str = "cancel_invoke";

/// Longest `name` and `key` of an eval: both are kept in the session.
const NAME_BYTES_MAX: usize = 1024;

/// `params` of `handshake`. The bindings are checked one by one, so they stay raw here.
#[derive(Debug, Clone, Deserialize)]
pub struct HandshakeParams {
    /// The version that the client speaks.
    pub protocol: String,
    /// The client's bindings.
    #[serde(default)]
    pub bindings: Vec<Value>,
    /// Whatever the client says of itself.
    #[serde(default)]
    pub metadata: Option<Value>,
    /// The session to resume.
    #[serde(default)]
    pub session: Option<ResumeParams>,
    /// The notifications that the client understands beside `release_ref`; unknown names are ignored.
    #[serde(default)]
    pub notifications: Vec<String>,
}

/// `params.session` of `handshake`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResumeParams {
    /// The session.
    pub id: String,
    /// The token of its last handshake.
    pub token: String,
}

/// `params` of `eval`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalParams {
    /// The code.
    pub code: String,
    /// A time limit by the clock; the server's own limits hold too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The file name in stack traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether its declarations are forgotten.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// Whether the answer has `stats`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stats: bool,
    /// The client's own name for it, so that it runs once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What an `invoke` calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// A binding, by its name.
    Binding(String),
    /// A function, by its reference.
    #[serde(rename = "ref")]
    Reference(String),
}

/// What an `invoke` passes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Payload {
    /// One value.
    Input(Value),
    /// Several, for a function.
    Args(Vec<Value>),
}

impl Payload {
    /// About how many bytes it takes in memory.
    pub fn tree_bytes(&self) -> usize {
        match self {
            Self::Input(input) => tree_bytes(input),
            Self::Args(arguments) => arguments.iter().map(tree_bytes).sum(),
        }
    }

    /// About how many bytes it takes as text.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Input(input) => text_bytes(input),
            Self::Args(arguments) => arguments.iter().map(text_bytes).sum(),
        }
    }
}

/// The same as it was sent: text until the turn that uses it, because a value takes many times as much memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum RawPayload {
    /// One value.
    Input(Box<RawValue>),
    /// A list of several.
    Args(Box<RawValue>),
}

/// `params` of `invoke` with its payload as it was sent.
#[derive(Debug)]
pub struct RawInvokeParams {
    /// What is called.
    pub target: Target,
    /// With what.
    pub payload: RawPayload,
}

/// `params` of `invoke`.
#[derive(Debug, Clone, Serialize)]
pub struct InvokeParams {
    /// What is called.
    #[serde(flatten)]
    pub target: Target,
    /// With what.
    #[serde(flatten)]
    pub payload: Payload,
}

/// `params` of `release_ref`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseParams {
    /// The reference.
    #[serde(rename = "ref")]
    pub reference: String,
    /// How many receipts of it are given back.
    #[serde(default = "one")]
    pub count: u64,
}

fn one() -> u64 {
    1
}

/// `params` of `cancel_invoke`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelParams {
    /// The id of the `invoke` request whose answer is not awaited any more.
    pub id: u64,
}

/// `result` of `invoke`, and what every result has.
#[derive(Debug, Serialize, Deserialize)]
pub struct ValueResult {
    /// The value in its wire form.
    pub value: Value,
}

/// Reads `params`, or says what is wrong with them.
pub fn read_params<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, ErrorObject> {
    let text = params.map_or("{}", RawValue::get);
    if !text.starts_with('{') {
        return Err(ErrorObject::new(Kind::InvalidParams, "`params` must be an object"));
    }
    serde_json::from_str(text).map_err(|error| unreadable(&error))
}

fn read_json<T: DeserializeOwned>(text: &RawValue) -> Result<T, ErrorObject> {
    serde_json::from_str(text.get()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> ErrorObject {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    ErrorObject::new(Kind::InvalidParams, format!("params: {message}"))
}

impl EvalParams {
    /// Reads and checks the parameters of an eval.
    pub fn read(params: Option<&RawValue>) -> Result<Self, ErrorObject> {
        let read: Self = read_params(params)?;
        let bad = |path: &str, message: &str| {
            Err(ErrorObject::new(Kind::InvalidParams, format!("{}: {message}", &path[1..]))
                .with("path", path))
        };
        if read.timeout_ms == Some(0) {
            return bad("/timeoutMs", "expected a positive integer, got 0");
        }
        if read.name.as_ref().is_some_and(|name| name.len() > NAME_BYTES_MAX || name.contains(['\0', '\n'])) {
            return bad("/name", "expected a file name of at most 1024 bytes on one line");
        }
        if read.key.as_ref().is_some_and(|key| key.is_empty() || key.len() > NAME_BYTES_MAX) {
            return bad("/key", "expected 1 to 1024 bytes");
        }
        Ok(read)
    }
}

impl InvokeParams {
    /// Reads the parameters of an invoke, its payload included.
    pub fn read(params: Option<&RawValue>) -> Result<Self, ErrorObject> {
        let RawInvokeParams { target, payload } = RawInvokeParams::read(params)?;
        Ok(Self { target, payload: payload.parse()? })
    }
}

impl RawPayload {
    /// Makes values of the text.
    pub fn parse(&self) -> Result<Payload, ErrorObject> {
        Ok(match self {
            Self::Input(input) => Payload::Input(read_json(input)?),
            Self::Args(arguments) => Payload::Args(read_json(arguments)?),
        })
    }

    /// The text: of the one value, or of the list of arguments.
    pub fn text(&self) -> &str {
        match self {
            Self::Input(text) | Self::Args(text) => text.get(),
        }
    }
}

impl RawInvokeParams {
    /// Reads the parameters of an invoke: exactly one of `binding` and `ref`, of `input` and `args`.
    pub fn read(params: Option<&RawValue>) -> Result<Self, ErrorObject> {
        #[derive(Deserialize)]
        struct Loose<'a> {
            binding: Option<String>,
            #[serde(rename = "ref")]
            reference: Option<String>,
            #[serde(borrow, default, deserialize_with = "present")]
            input: Option<&'a RawValue>,
            #[serde(borrow)]
            args: Option<&'a RawValue>,
        }
        let refuse = |message: &str| Err(ErrorObject::new(Kind::InvalidParams, message));
        let loose: Loose<'_> = read_params(params)?;
        let target = match (loose.binding, loose.reference) {
            (Some(name), None) => Target::Binding(name),
            (None, Some(id)) => Target::Reference(id),
            (Some(_), Some(_)) | (None, None) => return refuse("params: exactly one of `binding` and `ref`"),
        };
        if loose.args.is_some_and(|args| !args.get().starts_with('[')) {
            return refuse("params: `args` must be a list");
        }
        let payload = match (&target, loose.input, loose.args) {
            (_, Some(input), None) => RawPayload::Input(input.to_owned()),
            (Target::Reference(_), None, Some(args)) => RawPayload::Args(args.to_owned()),
            (Target::Binding(_), None, Some(_)) => {
                return refuse("params: `args` is for `ref`; a binding takes `input`");
            }
            (_, None, None) | (_, Some(_), Some(_)) => {
                return refuse("params: exactly one of `input` and `args`");
            }
        };
        Ok(Self { target, payload })
    }
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn an_invoke_names_one_target_and_one_payload() {
        let read = |text: &str| InvokeParams::read(Some(&raw(text)));
        assert!(read(r#"{"binding":"a","input":null}"#).is_ok());
        assert!(read(r#"{"ref":"f1","args":[1,2]}"#).is_ok());
        for text in [
            "{}",
            r#"{"binding":"a","ref":"f1","input":1}"#,
            r#"{"ref":"f1"}"#,
            r#"{"ref":"f1","input":1,"args":[]}"#,
            r#"{"binding":"a","args":[1]}"#,
            "[]",
        ] {
            assert_eq!(read(text).unwrap_err().code, -32602, "{text}");
        }
    }

    #[test]
    fn the_timeout_of_an_eval_is_positive() {
        let read = |text: &str| EvalParams::read(Some(&raw(text)));
        assert_eq!(read(r#"{"code":"1","timeoutMs":5}"#).unwrap().timeout_ms, Some(5));
        for text in [
            r#"{"code":"1","timeoutMs":0}"#,
            r#"{"code":"1","timeoutMs":-1}"#,
            r#"{"code":"1","timeoutMs":1.5}"#,
            r#"{"code":1}"#,
            "{}",
        ] {
            assert_eq!(read(text).unwrap_err().code, -32602, "{text}");
        }
    }

    #[test]
    fn an_invoke_of_ours_reads_back() {
        let out =
            InvokeParams { target: Target::Reference("f1".into()), payload: Payload::Args(vec![1.into()]) };
        assert_eq!(serde_json::to_string(&out).unwrap(), r#"{"ref":"f1","args":[1]}"#);
    }
}

//! Tagged values of the wire form, decoded. An object with a malformed tag is a plain object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// A value that JSON cannot represent.
pub(super) enum Tagged<'a> {
    Undefined,
    BigInt(&'a str),
    Date(&'a str),
    Number(&'a str),
    Bytes(Vec<u8>),
    Map(&'a [Value]),
    Set(&'a [Value]),
    Error(&'a Map<String, Value>),
    /// A function, with its name.
    Function(Option<&'a str>),
    /// A plain object that looks like a tag.
    Escaped(&'a Map<String, Value>),
}

impl<'a> Tagged<'a> {
    /// Decodes a value, if it is tagged.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        let fields = value.as_object()?;
        if fields.contains_key("$fn") {
            return Some(Self::Function(fields.get("name").and_then(Value::as_str)));
        }
        let (tag, content) = fields.iter().next().filter(|_| fields.len() == 1)?;
        match tag.as_str() {
            "$undefined" => Some(Self::Undefined),
            "$bigint" => content.as_str().map(Self::BigInt),
            "$date" => content.as_str().map(Self::Date),
            "$number" => content.as_str().map(Self::Number),
            "$bytes" => STANDARD.decode(content.as_str()?).ok().map(Self::Bytes),
            "$map" => content.as_array().map(|pairs| Self::Map(pairs)),
            "$set" => content.as_array().map(|items| Self::Set(items)),
            "$error" => content.as_object().map(Self::Error),
            "$object" => content.as_object().map(Self::Escaped),
            _ => None,
        }
    }
}

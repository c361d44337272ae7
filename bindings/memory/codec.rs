//! Documents in memory and on the wire: the `fvj1:` frames with tagged values, and bare JSON.
//!
//! A tag is a variant of its own (`Tag`), not an object with a special key, so patches, hashes and
//! comparisons do not depend on how a dialect escapes such keys. Tags are not interpreted: unknown
//! ones are written back unchanged. Object members are sorted by their UTF-8 bytes, which makes the
//! encoding canonical.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// Start of every frame in the tagged dialect.
const PREFIX: &str = "fvj1:";

/// Deepest nesting of a stored document, counted as on the wire. A frame holds 127 levels and wraps
/// a document into at most ten, so every stored document can also be sent.
pub(super) const DOCUMENT_DEPTH_MAX: usize = 100;

/// How the frames of a connection are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `fvj1:`, then JSON with tags.
    Tagged,
    /// Bare JSON.
    Plain,
}

/// A value in a document or a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Null,
    Bool(bool),
    /// Integers that a double represents exactly are stored as integers, so that equal numbers have
    /// one form.
    Number(Number),
    Text(String),
    List(Vec<Data>),
    Map(BTreeMap<String, Data>),
    /// A tag, with its slash, and its state, in which tags are not decoded.
    Tag(String, Box<Data>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Unable to parse memory message")]
pub(super) struct DecodeError;

impl Dialect {
    pub(super) fn detect(frame: &str) -> Self {
        if frame.starts_with(PREFIX) { Self::Tagged } else { Self::Plain }
    }

    pub(super) fn decode(self, frame: &str) -> Result<Data, DecodeError> {
        let text = match self {
            Self::Tagged => frame.strip_prefix(PREFIX).ok_or(DecodeError)?,
            Self::Plain => frame,
        };
        // The parser rejects nesting deeper than 127 levels, which bounds every recursion below.
        let value = serde_json::from_str(text).map_err(|_| DecodeError)?;
        Ok(match self {
            Self::Tagged => Data::from_tagged(value),
            Self::Plain => Data::from_plain(value),
        })
    }

    pub(super) fn encode(self, data: &Data) -> String {
        match self {
            Self::Tagged => {
                let mut text = PREFIX.to_owned();
                write_tagged(data, &mut text);
                text
            }
            Self::Plain => {
                let mut text = String::new();
                write_literal(data, &mut text);
                text
            }
        }
    }
}

impl Data {
    /// Decodes the JSON of a tagged frame.
    pub(super) fn from_tagged(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.into_iter().map(Self::from_tagged).collect()),
            Value::Object(members) => match split_tag(members) {
                Ok((tag, state)) => Self::from_tag(tag, state),
                Err(members) => Self::Map(members.into_iter().map(decode_member).collect()),
            },
            scalar => Self::from_scalar(scalar),
        }
    }

    fn from_tag(tag: String, state: Value) -> Self {
        match (tag.as_str(), state) {
            ("/quote", state) => Self::from_literal(state),
            ("/object", Value::Object(members)) => {
                Self::Map(members.into_iter().map(decode_member).collect())
            }
            (_, state) => Self::Tag(tag, Box::new(Self::from_literal(state))),
        }
    }

    /// Decodes bare JSON, where only an object whose single key is `/Name@version` is a tag.
    pub(super) fn from_plain(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.into_iter().map(Self::from_plain).collect()),
            Value::Object(members) => match split_tag(members) {
                Ok((tag, state)) if is_versioned_tag(&tag) => {
                    Self::Tag(tag, Box::new(Self::from_literal(state)))
                }
                Ok((key, value)) => Self::Map(BTreeMap::from([(key, Self::from_plain(value))])),
                Err(members) => {
                    Self::Map(members.into_iter().map(|(k, v)| (k, Self::from_plain(v))).collect())
                }
            },
            scalar => Self::from_scalar(scalar),
        }
    }

    /// Decodes JSON without tags.
    pub(super) fn from_literal(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.into_iter().map(Self::from_literal).collect()),
            Value::Object(members) => {
                Self::Map(members.into_iter().map(|(key, value)| (key, Self::from_literal(value))).collect())
            }
            scalar => Self::from_scalar(scalar),
        }
    }

    fn from_scalar(value: Value) -> Self {
        match value {
            Value::Bool(flag) => Self::Bool(flag),
            Value::Number(number) => Self::number(number.as_f64().unwrap_or(0.0)),
            Value::String(text) => Self::Text(text),
            Value::Null | Value::Array(_) | Value::Object(_) => Self::Null,
        }
    }

    /// A number in canonical form; values that JSON cannot represent become a tag.
    pub(super) fn number(number: f64) -> Self {
        /// Above this a double cannot represent every integer.
        const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;
        if number == 0.0 && number.is_sign_negative() {
            return Self::special_number("-0");
        }
        if number.fract() == 0.0 && number.abs() <= EXACT_INTEGER_MAX {
            return Self::Number(Number::from(number as i64));
        }
        match Number::from_f64(number) {
            Some(number) => Self::Number(number),
            None if number.is_nan() => Self::special_number("NaN"),
            None if number > 0.0 => Self::special_number("+Infinity"),
            None => Self::special_number("-Infinity"),
        }
    }

    fn special_number(name: &str) -> Self {
        Self::Tag("/SpecialNumber@1".to_owned(), Box::new(Self::Text(name.to_owned())))
    }

    /// The JSON of a tagged frame without its prefix; the format of the store.
    pub(super) fn to_canonical_json(&self) -> String {
        let mut text = String::new();
        write_tagged(self, &mut text);
        text
    }

    /// Reads what [`Data::to_canonical_json`] wrote.
    pub(super) fn from_canonical_json(text: &str) -> Result<Self, DecodeError> {
        serde_json::from_str(text).map(Self::from_tagged).map_err(|_| DecodeError)
    }

    /// Bare JSON for a script; a tag becomes an object with one key.
    pub(super) fn to_plain(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => Value::Array(items.iter().map(Self::to_plain).collect()),
            Self::Map(members) => {
                Value::Object(members.iter().map(|(key, value)| (key.clone(), value.to_plain())).collect())
            }
            Self::Tag(tag, state) => Value::Object(Map::from_iter([(tag.clone(), state.to_plain())])),
        }
    }

    /// Decodes the tags inside the state of a tag.
    pub(super) fn interpret_tags(&self) -> Self {
        Self::from_tagged(self.to_plain())
    }

    pub(super) fn is_undefined(&self) -> bool {
        matches!(self, Self::Tag(tag, _) if tag == "/Undefined@1")
    }

    /// A member of an object; an `undefined` member counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(members) => members.get(key).filter(|member| !member.is_undefined()),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) | Self::Tag(..) => {
                None
            }
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        if let Self::Number(number) = self { number.as_f64() } else { None }
    }

    pub(super) fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    pub(super) fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    pub(super) fn as_map(&self) -> Option<&BTreeMap<String, Self>> {
        if let Self::Map(members) = self { Some(members) } else { None }
    }

    /// Levels of nesting on the wire, where an object with a key that starts with a slash takes
    /// two.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => 0,
            Self::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Self::Map(members) => {
                let own = if members.keys().any(|key| key.starts_with('/')) { 2 } else { 1 };
                own + members.values().map(Self::depth).max().unwrap_or(0)
            }
            Self::Tag(_, state) => 1 + state.depth(),
        }
    }

    /// Approximate size: one per value, more for long texts.
    pub(super) fn estimate_size(&self) -> usize {
        /// Memory of a value without its text.
        const VALUE_BYTES: usize = 64;
        1 + match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => 0,
            Self::Text(text) => text.len() / VALUE_BYTES,
            Self::List(items) => items.iter().map(Self::estimate_size).sum(),
            Self::Map(members) => {
                members.iter().map(|(key, value)| key.len() / VALUE_BYTES + value.estimate_size()).sum()
            }
            Self::Tag(_, state) => state.estimate_size(),
        }
    }

    fn has_tag(&self) -> bool {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => false,
            Self::List(items) => items.iter().any(Self::has_tag),
            Self::Map(members) => members.values().any(Self::has_tag),
            Self::Tag(..) => true,
        }
    }
}

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for Data {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<u64> for Data {
    fn from(number: u64) -> Self {
        Self::Number(Number::from(number))
    }
}

pub(super) fn object<const N: usize>(members: [(&str, Data); N]) -> Data {
    Data::Map(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn decode_member((key, value): (String, Value)) -> (String, Data) {
    (key, Data::from_tagged(value))
}

/// Splits an object whose only key is a slash and a name into tag and state; returns other objects
/// unchanged. A slash alone is an ordinary key.
fn split_tag(members: Map<String, Value>) -> Result<(String, Value), Map<String, Value>> {
    let is_tag = members.len() == 1 && members.keys().all(|key| key.len() > 1 && key.starts_with('/'));
    if !is_tag {
        return Err(members);
    }
    members.into_iter().next().ok_or_else(Map::new)
}

fn is_versioned_tag(tag: &str) -> bool {
    tag.strip_prefix('/').and_then(|rest| rest.split_once('@')).is_some_and(|(name, version)| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && !version.is_empty()
            && version.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn write_tagged(data: &Data, text: &mut String) {
    match data {
        Data::List(items) => write_list(items, text, write_tagged),
        Data::Map(members) if !members.keys().any(|key| key.starts_with('/')) => {
            write_members(members, text, write_tagged);
        }
        Data::Map(members) if data.has_tag() => {
            text.push_str("{\"/object\":");
            write_members(members, text, write_tagged);
            text.push('}');
        }
        Data::Map(members) => {
            text.push_str("{\"/quote\":");
            write_members(members, text, write_literal);
            text.push('}');
        }
        scalar_or_tag => write_literal(scalar_or_tag, text),
    }
}

fn write_literal(data: &Data, text: &mut String) {
    match data {
        Data::Null => text.push_str("null"),
        Data::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Data::Number(number) => {
            let _ = write!(text, "{number}");
        }
        Data::Text(string) => write_string(string, text),
        Data::List(items) => write_list(items, text, write_literal),
        Data::Map(members) => write_members(members, text, write_literal),
        Data::Tag(tag, state) => {
            text.push('{');
            write_string(tag, text);
            text.push(':');
            write_literal(state, text);
            text.push('}');
        }
    }
}

fn write_list(items: &[Data], text: &mut String, write_item: fn(&Data, &mut String)) {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_item(item, text);
    }
    text.push(']');
}

fn write_members(members: &BTreeMap<String, Data>, text: &mut String, write_value: fn(&Data, &mut String)) {
    text.push('{');
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_string(key, text);
        text.push(':');
        write_value(value, text);
    }
    text.push('}');
}

fn write_string(string: &str, text: &mut String) {
    // A string always has a JSON form.
    text.push_str(&serde_json::to_string(string).unwrap_or_default());
}

#[cfg(test)]
mod tests;

//! From a value on the wire to one of JavaScript.
//!
//! Properties are defined, not assigned: a setter that a script left on `Object.prototype` is not run, and a key
//! `__proto__` is a key. A malformed tag is an error with its path, never half a value.

mod text;

use crate::protocol::declaration::pointer_to;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rquickjs::{Array, Ctx, Error, Function, IntoJs, Object, TypedArray, Value as JsValue};
use serde_json::{Map, Value};

use super::{Kit, define};
use crate::binding::tags;
use crate::protocol::plain::{FUNCTION_TAG, TAGS};
use crate::rpc::{ErrorObject, ID_BYTES_MAX, Kind};

/// An error in a value from the peer, with its path.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct DecodeError {
    /// What was wrong and what was expected.
    pub(crate) message: String,
    /// JSON Pointer into the value.
    pub(crate) path: String,
    /// The kind of the error, where it is not the value's shape that is wrong.
    pub(crate) kind: Option<Kind>,
}

impl DecodeError {
    /// Something wrong with the value itself.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), path: String::new(), kind: None }
    }

    /// The same, one step further out.
    pub(crate) fn inside(mut self, segment: &str) -> Self {
        self.path.insert_str(0, &pointer_to(segment));
        self
    }

    /// The error for the message that the value came with; `kind` says what is wrong with a malformed value.
    pub(crate) fn into_object(self, kind: Kind) -> ErrorObject {
        let Self { message, path, kind: own } = self;
        let message = if own.is_none() && !path.is_empty() { format!("{path}: {message}") } else { message };
        ErrorObject::new(own.unwrap_or(kind), message).with("path", path)
    }
}

type DecodeResult<'js> = Result<JsValue<'js>, DecodeError>;

/// Makes the function for a reference.
pub(crate) type Import<'a, 'js> =
    dyn FnMut(&str, &str, &Map<String, Value>) -> Result<Function<'js>, DecodeError> + 'a;

/// One value to build.
pub(crate) struct Decoder<'a, 'js> {
    /// Where it will live.
    pub(crate) ctx: &'a Ctx<'js>,
    /// The functions that the prelude kept aside.
    pub(crate) kit: &'a Kit<'a, 'js>,
    /// Makes the function for a reference: its id, its name, and all members of its tag.
    pub(crate) import: &'a mut Import<'a, 'js>,
    /// How deep it may still be.
    pub(crate) depth_left: usize,
}

impl<'js> Decoder<'_, 'js> {
    /// Builds the value.
    pub(crate) fn value(&mut self, value: &Value) -> DecodeResult<'js> {
        match value {
            Value::Null => Ok(JsValue::new_null(self.ctx.clone())),
            Value::Bool(flag) => Ok(JsValue::new_bool(self.ctx.clone(), *flag)),
            Value::Number(number) => {
                Ok(JsValue::new_number(self.ctx.clone(), number.as_f64().unwrap_or(f64::NAN)))
            }
            Value::String(text) => self.map_build_error(text.as_str().into_js(self.ctx)),
            Value::Array(items) => self.deeper(|this| this.array(items)),
            Value::Object(fields) => self.deeper(|this| this.object(fields)),
        }
    }

    fn deeper(&mut self, build: impl FnOnce(&mut Self) -> DecodeResult<'js>) -> DecodeResult<'js> {
        self.depth_left = self
            .depth_left
            .checked_sub(1)
            .ok_or_else(|| DecodeError::new("the value is nested too deeply"))?;
        let built = build(self);
        self.depth_left += 1;
        built
    }

    fn array(&mut self, items: &[Value]) -> DecodeResult<'js> {
        let array = self.map_build_error(Array::new(self.ctx.clone()))?;
        for (index, item) in (0_u32..).zip(items) {
            let item = self.value(item).map_err(|error| error.inside(&index.to_string()))?;
            self.map_build_error(define::element(array.as_object(), index, &item))?;
        }
        Ok(array.into_object().into_value())
    }

    fn object(&mut self, fields: &Map<String, Value>) -> DecodeResult<'js> {
        if let Some(id) = fields.get(FUNCTION_TAG) {
            return self.function(id, fields);
        }
        let mut entries = fields.iter();
        match (entries.next(), entries.next()) {
            (Some((tag, payload)), None) if TAGS.contains(&tag.as_str()) => {
                self.tagged(tag, payload).map_err(|error| error.inside(tag))
            }
            _ => self.plain(fields),
        }
    }

    fn plain(&mut self, fields: &Map<String, Value>) -> DecodeResult<'js> {
        let object = self.map_build_error(Object::new(self.ctx.clone()))?;
        for (key, field) in fields {
            let field = self.value(field).map_err(|error| error.inside(key))?;
            self.map_build_error(define::field(&object, key, &field))?;
        }
        Ok(object.into_value())
    }

    fn function(&mut self, id: &Value, fields: &Map<String, Value>) -> DecodeResult<'js> {
        let id =
            id.as_str().ok_or_else(|| DecodeError::new("`$fn` must be a string").inside(FUNCTION_TAG))?;
        // It is kept as long as the script has the function, outside of the script's own heap.
        if id.len() > ID_BYTES_MAX {
            let message = format!("expected a reference of at most {ID_BYTES_MAX} bytes");
            return Err(DecodeError::new(message).inside(FUNCTION_TAG));
        }
        let name = match fields.get("name") {
            None => "",
            Some(Value::String(name)) => name,
            Some(_) => return Err(DecodeError::new("the name of a function must be a string").inside("name")),
        };
        Ok((self.import)(id, name, fields)?.into_value())
    }

    fn tagged(&mut self, tag: &str, payload: &Value) -> DecodeResult<'js> {
        match (tag, payload) {
            ("$undefined", Value::Bool(true)) => Ok(JsValue::new_undefined(self.ctx.clone())),
            ("$number", Value::String(text)) => self.number(text),
            ("$bigint", Value::String(text)) => self.bigint(text),
            ("$date", Value::String(text)) => self.date(text),
            ("$bytes", Value::String(text)) => self.bytes(text),
            ("$map", Value::Array(entries)) => self.map(entries),
            ("$set", Value::Array(members)) => self.set(members),
            ("$error", Value::Object(parts)) => self.error(parts),
            ("$object", Value::Object(fields)) => self.plain(fields),
            _ => Err(DecodeError::new(format!("`{tag}` has a payload of the wrong type"))),
        }
    }

    fn number(&self, text: &str) -> DecodeResult<'js> {
        let number = tags::special_number(text);
        let number = number.ok_or_else(|| DecodeError::new("expected NaN, Infinity, -Infinity or -0"))?;
        Ok(JsValue::new_float(self.ctx.clone(), number))
    }

    fn bigint(&self, text: &str) -> DecodeResult<'js> {
        if !tags::is_bigint(text) {
            return Err(DecodeError::new("expected a decimal integer of at most 10000 digits"));
        }
        self.kit_call("makeBigInt", (text,))
    }

    fn date(&self, text: &str) -> DecodeResult<'js> {
        let malformed = || DecodeError::new("expected a date in ISO form");
        if !tags::is_date(text) {
            return Err(malformed());
        }
        let date = self.kit_call("makeDate", (text,))?;
        if date.is_undefined() { Err(malformed()) } else { Ok(date) }
    }

    fn bytes(&self, text: &str) -> DecodeResult<'js> {
        let bytes = BASE64.decode(text).map_err(|error| DecodeError::new(format!("not base64: {error}")))?;
        Ok(self.map_build_error(TypedArray::<u8>::new_copy(self.ctx.clone(), bytes))?.into_value())
    }

    fn map(&mut self, entries: &[Value]) -> DecodeResult<'js> {
        let map = self.kit_call("makeMap", ())?;
        for (index, entry) in entries.iter().enumerate() {
            let pair = || DecodeError::new("expected a pair of key and value").inside(&index.to_string());
            let Value::Array(entry) = entry else {
                return Err(pair());
            };
            let [key, value] = entry.as_slice() else {
                return Err(pair());
            };
            let key = self.value(key).map_err(|error| error.inside("0").inside(&index.to_string()))?;
            let value = self.value(value).map_err(|error| error.inside("1").inside(&index.to_string()))?;
            self.kit_call("mapPut", (map.clone(), key, value))?;
        }
        Ok(map)
    }

    fn set(&mut self, members: &[Value]) -> DecodeResult<'js> {
        let set = self.kit_call("makeSet", ())?;
        for (index, member) in members.iter().enumerate() {
            let member = self.value(member).map_err(|error| error.inside(&index.to_string()))?;
            self.kit_call("setPut", (set.clone(), member))?;
        }
        Ok(set)
    }

    fn error(&mut self, parts: &Map<String, Value>) -> DecodeResult<'js> {
        let cause = parts.get("cause").map(|cause| self.value(cause).map_err(|error| error.inside("cause")));
        self.make_error(parts, cause.transpose()?)
    }

    fn make_error(&self, parts: &Map<String, Value>, cause: Option<JsValue<'js>>) -> DecodeResult<'js> {
        let text = |key: &str| match parts.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(DecodeError::new("expected a string").inside(key)),
        };
        let (name, message, stack) = (text("name")?, text("message")?, text("stack")?);
        let has_cause = cause.is_some();
        self.kit_call("makeError", (name, message, stack, has_cause, cause))
    }

    fn kit_call(&self, name: &str, arguments: impl rquickjs::function::IntoArgs<'js>) -> DecodeResult<'js> {
        kit_call(self.ctx, self.kit, name, arguments)
    }

    fn map_build_error<T>(&self, result: rquickjs::Result<T>) -> Result<T, DecodeError> {
        map_build_error(self.ctx, result)
    }
}

fn kit_call<'js>(
    ctx: &Ctx<'js>,
    kit: &Kit<'_, 'js>,
    name: &str,
    arguments: impl rquickjs::function::IntoArgs<'js>,
) -> DecodeResult<'js> {
    let function = map_build_error(ctx, kit(name))?;
    map_build_error(ctx, function.call(arguments))
}

/// Converts an error of QuickJS. Building a value fails only if memory is short, or if the script is stopped meanwhile.
fn map_build_error<T>(ctx: &Ctx<'_>, result: rquickjs::Result<T>) -> Result<T, DecodeError> {
    result.map_err(|error| {
        if matches!(error, Error::Exception) {
            ctx.catch();
        }
        DecodeError {
            kind: Some(Kind::MemoryLimit),
            ..DecodeError::new("not enough memory in the session for this value")
        }
    })
}

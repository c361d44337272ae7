//! From a JavaScript value to its form on the wire.
//!
//! A recursive walk, bounded by `value_depth_max` and by a budget of bytes that is checked before anything is
//! copied. Getters, proxies and `toJSON` run in the guest, at most once, under its limits; what they throw becomes
//! an error with the path at which it happened.

use crate::scomp::declaration::pointer_to;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rquickjs::atom::PredefinedAtom;
use rquickjs::{
    Array, ArrayBuffer, Atom, Ctx, Error, Filter, Function, Object, String as JsString, Type,
    Value as JsValue,
};
use serde_json::{Map, Number, Value, json};

use super::super::guest::kit_function;
use super::class::{Class, copy_bytes, string_units};
use crate::scomp::plain::wrap;

/// Integers up to here are written as integers, larger ones as JavaScript prints them.
const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// Why a value has no form on the wire.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is no value of the wire, or it is in the way of itself.
    Unserializable(String),
    /// It is larger than allowed.
    TooLarge,
    /// No room for one more function.
    TooManyRefs,
    /// The script was stopped while it was asked.
    Stopped,
}

/// A [`Fault`] and where it is.
#[derive(Debug)]
pub(crate) struct EncodeError {
    /// What is wrong.
    pub(crate) fault: Fault,
    /// From the value outwards, so it is built while the walk comes back.
    inner_first: Vec<String>,
}

impl EncodeError {
    /// An error at the current place.
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, inner_first: Vec::new() }
    }

    fn unserializable(why: impl Into<String>) -> Self {
        Self::new(Fault::Unserializable(why.into()))
    }

    fn inside(mut self, segment: impl Into<String>) -> Self {
        self.inner_first.push(segment.into());
        self
    }

    /// The place as a JSON Pointer.
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.inner_first.iter().rev() {
            path.push_str(&pointer_to(segment));
        }
        path
    }
}

/// One walk.
pub(crate) struct Encoder<'a, 'js> {
    /// Where the value lives.
    pub(crate) ctx: &'a Ctx<'js>,
    /// The functions that the prelude kept aside.
    pub(crate) kit: &'a Object<'js>,
    /// Gives a function its reference.
    pub(crate) export: &'a mut dyn FnMut(Function<'js>) -> Result<Value, EncodeError>,
    /// How many bytes of JSON it may still become.
    pub(crate) bytes_left: usize,
    /// How deep it may be.
    pub(crate) depth_max: usize,
    /// The objects that we are inside of.
    pub(crate) ancestors: Vec<JsValue<'js>>,
}

type Encoded = Result<Value, EncodeError>;

impl<'js> Encoder<'_, 'js> {
    /// The wire form of a whole value; `undefined` has its tag here.
    pub(crate) fn top(&mut self, value: &JsValue<'js>) -> Encoded {
        match self.value(value)? {
            Some(encoded) => Ok(encoded),
            None => Ok(json!({"$undefined": true})),
        }
    }

    /// `None` is `undefined`, which each place treats in its own way.
    fn value(&mut self, value: &JsValue<'js>) -> Result<Option<Value>, EncodeError> {
        Ok(Some(match value.type_of() {
            Type::Undefined | Type::Uninitialized => return Ok(None),
            Type::Null => self.counted(4, Value::Null)?,
            Type::Bool => self.counted(5, Value::Bool(value.as_bool().unwrap_or_default()))?,
            Type::Int | Type::Float => self.number(value.as_number().unwrap_or_default())?,
            Type::String => {
                let text = value.as_string().ok_or_else(|| EncodeError::unserializable("a broken string"))?;
                Value::String(self.text(text)?)
            }
            Type::BigInt => {
                let text = self.kit_text("bigintText", value.clone())?;
                self.counted(text.len() + 14, json!({"$bigint": text}))?
            }
            Type::Symbol => return Err(EncodeError::unserializable("a symbol has no form on the wire")),
            _ => {
                let object = value
                    .as_object()
                    .ok_or_else(|| EncodeError::unserializable("not a value of the wire"))?;
                return self.object(object);
            }
        }))
    }

    fn number(&mut self, number: f64) -> Encoded {
        let special = if number.is_nan() {
            "NaN"
        } else if number == f64::INFINITY {
            "Infinity"
        } else if number == f64::NEG_INFINITY {
            "-Infinity"
        } else if number == 0.0 && number.is_sign_negative() {
            "-0"
        } else if number.fract() == 0.0 && number.abs() <= SAFE_INTEGER_MAX {
            #[allow(clippy::cast_possible_truncation)]
            let integer = number as i64;
            let digits = integer.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 2;
            return self.counted(digits, Value::from(integer));
        } else {
            let number = Number::from_f64(number).map_or(Value::Null, Value::Number);
            return self.counted(number.to_string().len(), number);
        };
        self.counted(special.len() + 14, json!({"$number": special}))
    }

    fn text(&mut self, text: &JsString<'js>) -> Result<String, EncodeError> {
        if string_units(text) + 2 > self.bytes_left {
            return Err(EncodeError::new(Fault::TooLarge));
        }
        let text = match text.to_string() {
            Ok(text) => text,
            // A lone surrogate has no place in JSON text: it becomes U+FFFD.
            Err(Error::Utf8(_)) => self.kit_text("wellFormed", text.as_value().clone())?,
            Err(error) => return Err(self.failed(error)),
        };
        self.take(json_length(&text))?;
        Ok(text)
    }

    fn object(&mut self, object: &Object<'js>) -> Result<Option<Value>, EncodeError> {
        if self.ancestors.len() >= self.depth_max {
            let why = format!("nested deeper than {}", self.depth_max);
            return Err(EncodeError::unserializable(why));
        }
        if self.ancestors.iter().any(|ancestor| ancestor == object.as_value()) {
            return Err(EncodeError::unserializable("a cycle"));
        }
        self.ancestors.push(object.as_value().clone());
        let encoded = self.object_inside(object);
        self.ancestors.pop();
        encoded
    }

    fn object_inside(&mut self, object: &Object<'js>) -> Result<Option<Value>, EncodeError> {
        let class = Class::of(object);
        Ok(Some(match class {
            Class::Function => {
                let function = object.as_function().cloned();
                let function = function.ok_or_else(|| EncodeError::unserializable("not a function"))?;
                let reference = (self.export)(function)?;
                self.take(reference.to_string().len())?;
                reference
            }
            Class::Date => {
                let iso = self.kit_call("dateText", object.as_value().clone())?;
                let iso = iso.as_string().ok_or_else(|| EncodeError::unserializable("an invalid Date"))?;
                json!({"$date": self.text(iso)?})
            }
            Class::Map => json!({"$map": self.entries(object, "mapIterator", "mapNext", Self::pair)?}),
            Class::Set => json!({"$set": self.entries(object, "setIterator", "setNext", Self::member)?}),
            Class::Buffer | Class::View => self.bytes(object)?,
            Class::Error => self.error(object)?,
            Class::Array | Class::Proxy | Class::Plain => return self.structure(object, class),
        }))
    }

    /// Arrays and plain objects: what `toJSON` gives, or what they hold.
    fn structure(&mut self, object: &Object<'js>, class: Class) -> Result<Option<Value>, EncodeError> {
        if self.guarded(object.contains_key(PredefinedAtom::ToJSON))? {
            let replaced = self.kit_call("toJson", object.as_value().clone())?;
            if let Some(wrapped) = replaced.as_array() {
                let value = self.guarded(wrapped.get::<JsValue<'js>>(0))?;
                return self.value(&value);
            }
        }
        let is_array = class == Class::Array
            || class == Class::Proxy
                && self.kit_call("isArray", object.as_value().clone())?.as_bool() == Some(true);
        if is_array { self.array(object).map(Some) } else { self.plain(object).map(Some) }
    }

    fn array(&mut self, array: &Object<'js>) -> Encoded {
        let length = self.guarded(array.get::<_, f64>("length"))?;
        // Each element takes at least two bytes, so a length that cannot fit is refused before the first.
        #[allow(clippy::cast_precision_loss)]
        if length * 2.0 > self.bytes_left as f64 + 2.0 {
            return Err(EncodeError::new(Fault::TooLarge));
        }
        self.take(2)?;
        let mut items = Vec::new();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        for index in 0..length as u32 {
            self.take(1)?;
            let item = self
                .guarded(array.get::<_, JsValue<'js>>(index))
                .and_then(|item| self.value(&item))
                .map_err(|error| error.inside(index.to_string()))?;
            match item {
                Some(item) => items.push(item),
                None => items.push(self.counted(4, Value::Null)?),
            }
        }
        Ok(Value::Array(items))
    }

    fn plain(&mut self, object: &Object<'js>) -> Encoded {
        self.take(2)?;
        let mut fields = Map::new();
        for key in object.own_keys::<Atom<'js>>(Filter::new().string().enum_only()) {
            let key = self.guarded(key)?;
            let name = self.guarded(key.to_js_string()).and_then(|name| self.text(&name))?;
            let field = self
                .guarded(object.get::<_, JsValue<'js>>(key))
                .and_then(|value| self.value(&value))
                .map_err(|error| error.inside(name.clone()))?;
            if let Some(field) = field {
                self.take(2)?;
                fields.insert(name, field);
            }
        }
        Ok(wrap(fields))
    }

    fn entries(
        &mut self,
        object: &Object<'js>,
        iterator: &str,
        next: &str,
        entry: fn(&mut Self, &Array<'js>) -> Encoded,
    ) -> Encoded {
        self.take(12)?;
        let iterator = self.kit_call(iterator, object.as_value().clone())?;
        let mut entries = Vec::new();
        loop {
            let next = self.kit_call(next, iterator.clone())?;
            let Some(next) = next.as_array() else { break };
            self.take(1)?;
            let encoded = entry(self, next).map_err(|error| error.inside(entries.len().to_string()))?;
            entries.push(encoded);
        }
        Ok(Value::Array(entries))
    }

    fn pair(&mut self, entry: &Array<'js>) -> Encoded {
        self.take(3)?;
        let key = self.member_at(entry, 0).map_err(|error| error.inside("0"))?;
        let value = self.member_at(entry, 1).map_err(|error| error.inside("1"))?;
        Ok(json!([key, value]))
    }

    fn member(&mut self, entry: &Array<'js>) -> Encoded {
        self.member_at(entry, 0)
    }

    fn member_at(&mut self, entry: &Array<'js>, index: usize) -> Encoded {
        let value = self.guarded(entry.get::<JsValue<'js>>(index))?;
        Ok(self.value(&value)?.unwrap_or(Value::Null))
    }

    fn bytes(&mut self, object: &Object<'js>) -> Encoded {
        let parts = self.kit_call("viewParts", object.as_value().clone())?;
        let detached = || EncodeError::unserializable("a detached buffer");
        let parts = parts.as_array().ok_or_else(detached)?;
        let buffer = self.guarded(parts.get::<ArrayBuffer<'js>>(0))?;
        let (offset, length) = (self.guarded(parts.get::<usize>(1))?, self.guarded(parts.get::<usize>(2))?);
        self.take(length.div_ceil(3) * 4 + 13)?;
        let bytes = copy_bytes(&buffer, offset, length).ok_or_else(detached)?;
        Ok(json!({"$bytes": BASE64.encode(bytes)}))
    }

    fn error(&mut self, error: &Object<'js>) -> Encoded {
        self.take(14)?;
        let parts = self.kit_call("errorParts", error.as_value().clone())?;
        let parts = parts.as_array().ok_or_else(|| EncodeError::unserializable("an unreadable error"))?;
        let mut fields = Map::new();
        for (index, key) in ["name", "message", "stack", "cause"].into_iter().enumerate() {
            let value = self.guarded(parts.get::<JsValue<'js>>(index))?;
            if let Some(value) = self.value(&value).map_err(|error| error.inside(key))? {
                self.take(key.len() + 4)?;
                fields.insert(key.to_owned(), value);
            }
        }
        Ok(json!({"$error": fields}))
    }

    fn kit_call(&self, name: &str, argument: JsValue<'js>) -> Result<JsValue<'js>, EncodeError> {
        let function = self.guarded(kit_function(self.kit, name))?;
        self.guarded(function.call((argument,)))
    }

    fn kit_text(&self, name: &str, argument: JsValue<'js>) -> Result<String, EncodeError> {
        let value = self.kit_call(name, argument)?;
        self.guarded(value.get())
    }

    fn counted(&mut self, bytes: usize, value: Value) -> Encoded {
        self.take(bytes)?;
        Ok(value)
    }

    fn take(&mut self, bytes: usize) -> Result<(), EncodeError> {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(EncodeError::new(Fault::TooLarge)),
        }
    }

    fn guarded<T>(&self, result: rquickjs::Result<T>) -> Result<T, EncodeError> {
        result.map_err(|error| self.failed(error))
    }

    /// What a getter, a proxy or `toJSON` threw.
    fn failed(&self, error: Error) -> EncodeError {
        if !error.is_exception() {
            return EncodeError::unserializable(error.to_string());
        }
        let thrown = self.ctx.catch();
        if thrown.is_uncatchable_error() {
            return EncodeError::new(Fault::Stopped);
        }
        // Not through `kit_call`: near the end of the stack this fails too, and would come back here for ever.
        let header = kit_function(self.kit, "thrownHeader").and_then(|header| header.call((thrown,)));
        let header: String = match header {
            Ok(header) => header,
            Err(_) if self.ctx.catch().is_uncatchable_error() => return EncodeError::new(Fault::Stopped),
            Err(_) => "something".to_owned(),
        };
        EncodeError::unserializable(format!("reading it threw {header}"))
    }
}

/// How long a string is as JSON text.
fn json_length(text: &str) -> usize {
    let escaped: usize = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
            0..=31 => 5,
            _ => 0,
        })
        .sum();
    text.len() + escaped + 2
}

//! From a JavaScript value to its form on the wire.
//!
//! A recursive walk, bounded by `value_depth_max` and by a budget of bytes that is checked before anything is
//! copied. Getters, proxies and `toJSON` run in the guest, at most once, under its limits; what they throw becomes
//! an error with the path at which it happened.

mod fault;
mod tagged;

use rquickjs::atom::PredefinedAtom;
use rquickjs::{Ctx, Error, Function, Object, String as JsString, Type, Value as JsValue};

use super::Kit;
use super::class::{Class, string_units};
use super::form::{Form, quoted_length};
use super::keys::{CachedKey, KeyCache, KeyMeaning};
use super::read::{self, Name, Names, Text};
use crate::limits::Limits;

pub(crate) use fault::{EncodeError, Fault};

/// Integers up to here are written as integers, larger ones as JavaScript prints them.
const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// Least that a character of a boxed string takes, as the property `"0":"x"`.
const CHARACTER_BYTES_MIN: usize = 7;

/// One walk.
pub(crate) struct Encoder<'a, 'js, F: Form> {
    ctx: &'a Ctx<'js>,
    kit: &'a Kit<'a, 'js>,
    export: &'a mut Export<'a, 'js>,
    /// How many bytes of JSON it may still become.
    bytes_left: usize,
    /// How many bytes of memory it may still become, where that is more.
    memory_left: usize,
    depth_max: usize,
    /// The objects around the current value.
    ancestors: Vec<JsValue<'js>>,
    keys: KeyCache<'js, F>,
    form: F,
}

/// Exports a function. Returns its reference and its name.
pub(crate) type Export<'a, 'js> = dyn FnMut(Function<'js>) -> Result<(String, String), EncodeError> + 'a;

/// Whether anything was written: `undefined` is not, and each caller handles it differently.
type WriteResult = Result<bool, EncodeError>;

impl<'a, 'js, F: Form> Encoder<'a, 'js, F> {
    /// A walk within limits; functions that it comes to are exported.
    pub(crate) fn new(
        ctx: &'a Ctx<'js>,
        kit: &'a Kit<'a, 'js>,
        export: &'a mut Export<'a, 'js>,
        limits: &Limits,
    ) -> Self {
        Self {
            ctx,
            kit,
            export,
            bytes_left: limits.result_bytes_max,
            memory_left: limits.calls_bytes_max,
            depth_max: limits.value_depth_max,
            ancestors: Vec::new(),
            keys: KeyCache::default(),
            form: F::default(),
        }
    }

    /// The wire form of a whole value; `undefined` has its tag here.
    pub(crate) fn top(mut self, value: &JsValue<'js>) -> Result<F::Whole, EncodeError> {
        if !self.value(value)? {
            self.tagged("$undefined", |this| {
                this.form.bool(true);
                Ok(())
            })?;
        }
        self.form.whole().ok_or_else(|| EncodeError::unserializable("not a serializable value"))
    }

    fn value(&mut self, value: &JsValue<'js>) -> WriteResult {
        let left = self.memory_left.checked_sub(F::NODE_BYTES);
        self.memory_left = left.ok_or_else(|| EncodeError::new(Fault::TooLarge))?;
        match value.type_of() {
            Type::Undefined | Type::Uninitialized => return Ok(false),
            Type::Null => {
                self.take(4)?;
                self.form.null();
            }
            Type::Bool => {
                self.take(5)?;
                self.form.bool(value.as_bool().unwrap_or_default());
            }
            Type::Int => self.integer(i64::from(value.as_int().unwrap_or_default()))?,
            Type::Float => self.number(value.as_float().unwrap_or_default())?,
            Type::String => {
                let text = value.as_string().ok_or_else(|| EncodeError::unserializable("a broken string"))?;
                self.text(text)?;
            }
            Type::BigInt => {
                let text = self.kit_text("bigintText", value.clone())?;
                self.take(text.len() + 14)?;
                self.tagged("$bigint", |this| {
                    this.form.string(&text);
                    Ok(())
                })?;
            }
            Type::Symbol => return Err(EncodeError::unserializable("a symbol cannot be serialized")),
            _ => {
                let object = value
                    .as_object()
                    .ok_or_else(|| EncodeError::unserializable("not a serializable value"))?;
                return self.object(object);
            }
        }
        Ok(true)
    }

    fn integer(&mut self, integer: i64) -> Result<(), EncodeError> {
        let digits = integer.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
        self.take(digits + usize::from(integer < 0))?;
        self.form.integer(integer);
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), EncodeError> {
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
            return self.integer(number as i64);
        } else {
            let length = self.form.float(number);
            return self.take(length);
        };
        self.take(special.len() + 14)?;
        self.tagged("$number", |this| {
            this.form.string(special);
            Ok(())
        })
    }

    fn text(&mut self, text: &JsString<'js>) -> Result<(), EncodeError> {
        if string_units(text) + 2 > self.bytes_left {
            return Err(EncodeError::new(Fault::TooLarge));
        }
        let held = self.guarded(Text::of(text))?;
        match held.get() {
            Some(text) => self.string(text),
            // A lone surrogate has no place in JSON text: it becomes U+FFFD.
            None => {
                let text = self.kit_text("wellFormed", text.as_value().clone())?;
                self.string(&text)
            }
        }
    }

    fn string(&mut self, text: &str) -> Result<(), EncodeError> {
        // Measured beforehand only where it matters: an escape takes six bytes at most.
        if text.len() * 6 + 2 > self.bytes_left && quoted_length(text) > self.bytes_left {
            return Err(EncodeError::new(Fault::TooLarge));
        }
        let length = self.form.string(text);
        self.take(length)
    }

    fn object(&mut self, object: &Object<'js>) -> WriteResult {
        if self.ancestors.len() >= self.depth_max {
            let why = format!("nested deeper than {}", self.depth_max);
            return Err(EncodeError::unserializable(why));
        }
        if self.ancestors.iter().any(|ancestor| ancestor == object.as_value()) {
            return Err(EncodeError::unserializable("a cycle"));
        }
        self.ancestors.push(object.as_value().clone());
        let written = self.object_inside(object);
        self.ancestors.pop();
        written
    }

    fn object_inside(&mut self, object: &Object<'js>) -> WriteResult {
        let class = Class::of(object);
        match class {
            Class::Function => self.function(object)?,
            Class::Date => {
                let iso = self.kit_call("dateText", object.as_value().clone())?;
                let iso = iso.as_string().ok_or_else(|| EncodeError::unserializable("an invalid Date"))?;
                self.tagged("$date", |this| this.text(iso))?;
            }
            Class::Map => {
                self.tagged("$map", |this| this.entries(object, "mapIterator", "mapNext", Self::pair))?;
            }
            Class::Set => {
                self.tagged("$set", |this| this.entries(object, "setIterator", "setNext", Self::member))?;
            }
            Class::Buffer | Class::View => self.bytes(object)?,
            Class::Error => self.error(object)?,
            Class::RegExp => {
                let text = self.kit_text("regexpText", object.as_value().clone())?;
                self.string(&text)?;
            }
            Class::Promise => return self.promise(object),
            Class::Opaque(class) => {
                return Err(EncodeError::unserializable(format!("{class}: its contents cannot be listed")));
            }
            Class::Iterator => {
                let why = "an iterator or generator: spread it into a list first, [...it], or use for await";
                return Err(EncodeError::unserializable(why));
            }
            Class::Array | Class::Proxy | Class::BoxedString | Class::Plain => {
                return self.structure(object, class);
            }
        }
        Ok(true)
    }

    /// Arrays and plain objects: what `toJSON` returns, or what they contain.
    fn structure(&mut self, object: &Object<'js>, class: Class) -> WriteResult {
        if self.guarded(read::has(object, PredefinedAtom::ToJSON))? {
            let replaced = self.kit_call("toJson", object.as_value().clone())?;
            if let Some(wrapped) = replaced.as_array() {
                let value = self.guarded(wrapped.get::<JsValue<'js>>(0))?;
                return self.value(&value);
            }
        }
        let is_array = class == Class::Array
            || class == Class::Proxy
                && self.kit_call("isArray", object.as_value().clone())?.as_bool() == Some(true);
        if is_array {
            self.array(object)?
        } else {
            // Its names would take more memory than the script has. The length is its own, and no script can change it.
            if class == Class::BoxedString
                && self.guarded(read::length(object))? > self.bytes_left / CHARACTER_BYTES_MIN
            {
                return Err(EncodeError::new(Fault::TooLarge));
            }
            self.plain(object, class)?
        }
        Ok(true)
    }

    fn array(&mut self, array: &Object<'js>) -> Result<(), EncodeError> {
        let length = self.guarded(read::length(array))?;
        // Each element takes at least two bytes, so a length that cannot fit is refused before the first.
        if length > self.bytes_left / 2 + 1 {
            return Err(EncodeError::new(Fault::TooLarge));
        }
        self.take(2)?;
        self.form.open_list();
        for index in 0..u32::try_from(length).unwrap_or(u32::MAX) {
            self.take(usize::from(index > 0))?;
            self.guarded(read::element(array, index))
                .and_then(|item| self.value(&item))
                .and_then(|is_written| if is_written { Ok(()) } else { self.null() })
                .map_err(|error| error.inside(index.to_string()))?;
        }
        self.form.close_list();
        Ok(())
    }

    /// What stands for `undefined` in a list.
    fn null(&mut self) -> Result<(), EncodeError> {
        self.take(4)?;
        self.form.null();
        Ok(())
    }

    fn plain(&mut self, object: &Object<'js>, class: Class) -> Result<(), EncodeError> {
        self.take(2)?;
        let names = self.guarded(Names::of(object))?;
        let start = self.form.open_fields();
        self.keys.enter_object();
        let (mut count, mut is_tag, mut is_function) = (0, false, false);
        for name in names.iter() {
            let (place, meaning) = self.key(&names, name)?;
            let is_written = self
                .guarded(names.read(name))
                .and_then(|value| self.value(&value))
                .map_err(|error| error.inside(self.spelled(&names, name)))?;
            if !is_written {
                self.form.drop_key(place);
                continue;
            }
            // Its colon, and a comma before all but the first.
            self.take(1 + usize::from(count > 0))?;
            count += 1;
            is_tag |= meaning == KeyMeaning::Tag;
            is_function |= meaning == KeyMeaning::Function;
        }
        if count == 0 && class == Class::Plain && tagged::has_class_of_its_own(object) {
            self.getters(object)?;
        }
        self.form.close_fields(start, is_function || is_tag && count == 1);
        Ok(())
    }

    /// Writes the key of a field. Returns its place, and what it could be mistaken for.
    fn key(&mut self, names: &Names<'_, 'js>, name: Name<'_>) -> Result<(usize, KeyMeaning), EncodeError> {
        if let Some(known) = self.keys.find(name) {
            let place = self.form.key(&known.key);
            let (bytes, meaning) = (known.bytes, known.meaning);
            self.take(bytes)?;
            return Ok((place, meaning));
        }
        let string = self.guarded(names.string(name))?;
        let held = self.guarded(Text::of_value(self.ctx, &string))?;
        let known = match held.get() {
            Some(text) => CachedKey::<F>::of(text, self.bytes_left),
            None => CachedKey::of(&self.kit_text("wellFormed", string.clone())?, self.bytes_left),
        };
        let known = known.ok_or_else(|| EncodeError::new(Fault::TooLarge))?;
        self.take(known.bytes)?;
        let (place, meaning) = (self.form.key(&known.key), known.meaning);
        self.keys.keep(names, name, known);
        Ok((place, meaning))
    }

    /// The name in an error message.
    fn spelled(&self, names: &Names<'_, 'js>, name: Name<'_>) -> String {
        let Ok(string) = self.guarded(names.string(name)) else { return String::new() };
        let held = self.guarded(Text::of_value(self.ctx, &string));
        match held.as_ref().ok().and_then(Text::get) {
            Some(text) => text.to_owned(),
            None => self.kit_text("wellFormed", string.clone()).unwrap_or_default(),
        }
    }

    fn kit_call(&self, name: &str, argument: JsValue<'js>) -> Result<JsValue<'js>, EncodeError> {
        let function = self.guarded((self.kit)(name))?;
        self.guarded(function.call((argument,)))
    }

    fn kit_text(&self, name: &str, argument: JsValue<'js>) -> Result<String, EncodeError> {
        let value = self.kit_call(name, argument)?;
        self.guarded(value.get())
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
        let header = (self.kit)("thrownHeader").and_then(|header| header.call((thrown,)));
        let header: String = match header {
            Ok(header) => header,
            Err(_) if self.ctx.catch().is_uncatchable_error() => return EncodeError::new(Fault::Stopped),
            Err(_) => "something".to_owned(),
        };
        EncodeError::unserializable(format!("reading it threw {header}"))
    }
}

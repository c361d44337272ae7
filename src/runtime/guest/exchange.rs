//! Values between the script and those outside: functions get their references on the way out and are made on the
//! way in.

use std::sync::Arc;

use rquickjs::{Ctx, Exception, Function, Value as JsValue};
use serde_json::{Map, Value};

use super::super::value::{DecodeError, Decoder, EncodeError, Encoder, Fault, Form, Kit};
use super::{Callable, Guest, RefHolder, ValueSource, kit_function};
use crate::rpc::Kind;
use crate::schema::FunctionSchemas;
use crate::schema::SchemaSource;

/// The number in the reference of a function of the script, `f7` or `host:7`.
pub(crate) fn function_number(reference: &str) -> Option<u64> {
    reference.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

impl Guest {
    /// Walks a value of the script; functions in it go to `holder`, and are listed in `handed`.
    pub(crate) fn encode<'js, F: Form>(
        &self,
        ctx: &Ctx<'js>,
        value: &JsValue<'js>,
        holder: RefHolder,
        handed: &mut Vec<String>,
    ) -> Result<F::Whole, EncodeError> {
        let kit = |name: &str| kit_function(&self.kit(ctx)?, name);
        let mut export = |function| self.export(ctx, &kit, function, holder, handed);
        let encoded = Encoder::<F>::new(ctx, &kit, &mut export, &self.limits).top(value);
        if encoded.is_err() {
            self.take_back(holder, handed);
        }
        encoded
    }

    /// Hands a function out: its reference and its name.
    fn export<'js>(
        &self,
        ctx: &Ctx<'js>,
        kit: &Kit<'_, 'js>,
        function: Function<'js>,
        holder: RefHolder,
        handed: &mut Vec<String>,
    ) -> Result<(String, String), EncodeError> {
        let unusable = |error: rquickjs::Error| {
            let is_stopped = error.is_exception() && ctx.catch().is_uncatchable_error();
            let gone = || Fault::Unserializable("the prelude is gone".to_owned());
            EncodeError::new(if is_stopped { Fault::Stopped } else { gone() })
        };
        let name = match function.get::<_, String>("name") {
            Ok(name) => name,
            // A getter may throw what it likes, but not hide that the script is stopped.
            Err(_) if ctx.catch().is_uncatchable_error() => {
                return Err(EncodeError::new(Fault::Stopped));
            }
            Err(_) => String::new(),
        };
        let identify = kit("identify").map_err(unusable)?;
        let number: u64 = identify.call((function.clone(),)).map_err(unusable)?;
        let callable = Callable::Script(number, self.roots.hold(ctx, function).map_err(unusable)?);
        let id = self.functions.borrow_mut().export(holder, callable);
        let id = id.ok_or_else(|| EncodeError::new(Fault::TooManyRefs))?;
        let id = match holder {
            RefHolder::Client => format!("f{id}"),
            RefHolder::Handler => format!("host:{id}"),
        };
        handed.push(id.clone());
        Ok((id, name))
    }

    /// What was handed out in a value that is not sent after all.
    fn take_back(&self, holder: RefHolder, handed: &mut Vec<String>) {
        for id in handed.drain(..) {
            let number = function_number(&id).unwrap_or_default();
            let gone = self.functions.borrow_mut().release(holder, number, 1);
            drop(gone);
        }
    }

    /// Builds a value for the script.
    pub(crate) fn decode<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: &Value,
        source: ValueSource,
    ) -> Result<JsValue<'js>, DecodeError> {
        self.decode_with(ctx, source, |decoder| decoder.value(value))
    }

    /// Builds a value for the script from its text.
    pub(crate) fn decode_text<'js>(
        &self,
        ctx: &Ctx<'js>,
        text: &str,
        source: ValueSource,
    ) -> Result<JsValue<'js>, DecodeError> {
        self.decode_with(ctx, source, |decoder| decoder.text(text))
    }

    /// Builds the values of a list from its text.
    pub(crate) fn decode_list<'js>(
        &self,
        ctx: &Ctx<'js>,
        text: &str,
        source: ValueSource,
    ) -> Result<Vec<JsValue<'js>>, DecodeError> {
        self.decode_with(ctx, source, |decoder| decoder.list(text))
    }

    fn decode_with<'js, R>(
        &self,
        ctx: &Ctx<'js>,
        source: ValueSource,
        build: impl FnOnce(&mut Decoder<'_, 'js>) -> R,
    ) -> R {
        let kit = |name: &str| kit_function(&self.kit(ctx)?, name);
        let mut import = |id: &str, name: &str, fields: &Map<String, Value>| {
            let key = self.import_key(source, id);
            if source == ValueSource::Client {
                self.note_schemas(&key, fields)?;
            }
            self.import(ctx, &kit, source, (&key, name)).map_err(|error| {
                if error.is_exception() {
                    ctx.catch();
                }
                let message = "too many live function references".to_owned();
                DecodeError { message, path: String::new(), kind: Some(Kind::TooManyRefs) }
            })
        };
        let mut decoder =
            Decoder { ctx, kit: &kit, import: &mut import, depth_left: self.limits.value_depth_max };
        build(&mut decoder)
    }

    fn import_key(&self, source: ValueSource, id: &str) -> String {
        match source {
            ValueSource::Handler => id.to_owned(),
            ValueSource::Client => format!("{}:{id}", self.attachment.get()),
        }
    }

    /// A reference may say what it takes and gives; calls of it are checked. What it said first stays, so that a
    /// reference that is sent often is compiled once.
    fn note_schemas(&self, key: &str, fields: &Map<String, Value>) -> Result<(), DecodeError> {
        if self.import_schemas.borrow().contains_key(key) {
            return Ok(());
        }
        let budget = self.schema_budget.borrow();
        let schemas = FunctionSchemas::compile(fields, SchemaSource::Client(&budget))
            .map_err(|error| DecodeError { message: error.message, path: error.path, kind: None })?;
        if !schemas.is_empty() {
            self.import_schemas.borrow_mut().insert(key.to_owned(), Arc::new(schemas));
        }
        Ok(())
    }

    fn import<'js>(
        &self,
        ctx: &Ctx<'js>,
        kit: &Kit<'_, 'js>,
        source: ValueSource,
        (key, name): (&str, &str),
    ) -> rquickjs::Result<Function<'js>> {
        if source == ValueSource::Handler
            && let Some(number) = key.strip_prefix("host:").and_then(|number| number.parse().ok())
            && let Some(Callable::Script(_, function)) =
                self.functions.borrow().get(RefHolder::Handler, number)
        {
            return function.get(ctx);
        }
        {
            let mut imports = self.imports.borrow_mut();
            if imports.len() >= self.limits.references_max && !imports.contains_key(key) {
                return Err(Exception::throw_range(ctx, "too many live function references"));
            }
            *imports.entry(key.to_owned()).or_default() += 1;
        }
        kit("importFunction")?.call((key, name))
    }
}

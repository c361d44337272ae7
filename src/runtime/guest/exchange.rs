//! Values between the script and its client or handlers: functions get their names on the way out and are made on the
//! way in.

use std::sync::Arc;

use rquickjs::{Ctx, Function, Value as JsValue};
use serde_json::{Map, Value};

use super::super::value::{DecodeError, Decoder, EncodeError, Encoder, Fault, Form, Kit};
use super::{Guest, kit_function};
use crate::protocol::fn_ref::FnRef;
use crate::rpc::Kind;
use crate::schema::FunctionSchemas;
use crate::schema::SchemaSource;
use crate::session::tables::Freed;
use crate::session::{Callable, RefHolder, RootId, ValueSource};

impl Guest {
    /// Walks a value of the script; functions in it are exported to `holder`, and are listed in `exported`.
    pub(crate) fn encode<'js, F: Form>(
        &self,
        ctx: &Ctx<'js>,
        value: &JsValue<'js>,
        holder: RefHolder,
        exported: &mut Vec<u64>,
    ) -> Result<F::Whole, EncodeError> {
        let kit = |name: &str| kit_function(&self.kit(ctx)?, name);
        let mut export = |function| self.export(ctx, &kit, function, holder, exported);
        let encoded = Encoder::<F>::new(ctx, &kit, &mut export, &self.limits).top(value);
        if encoded.is_err() {
            self.take_back(holder, exported);
        }
        encoded
    }

    /// Exports a function; returns its reference and its name.
    fn export<'js>(
        &self,
        ctx: &Ctx<'js>,
        kit: &Kit<'_, 'js>,
        function: Function<'js>,
        holder: RefHolder,
        exported: &mut Vec<u64>,
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
        let callable = Callable::Script(identify.call((function.clone(),)).map_err(unusable)?);
        let (number, root) = {
            let references = &mut self.machine_mut().state.references;
            let number = references.export(holder, &callable);
            (number.map_err(|_| EncodeError::new(Fault::TooManyRefs))?, references.root_of(&callable))
        };
        exported.push(number);
        if root.is_none() {
            let root = self.roots.hold(ctx, function).map_err(unusable)?;
            self.machine_mut().state.references.set_root(&callable, root);
        }
        Ok((FnRef::Script(number).to_string(), name))
    }

    /// Releases what was exported in a value that is not sent after all.
    pub(crate) fn take_back(&self, holder: RefHolder, exported: &mut Vec<u64>) {
        for number in exported.drain(..) {
            let freed = self.machine_mut().state.references.release(holder, number, 1);
            if let Some(Freed::Root(root)) = freed {
                self.roots.release(root);
            }
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
            let key = match source {
                ValueSource::Handler => FnRef::parse_or_unknown(id),
                ValueSource::Client(connection) => FnRef::Client { connection, id: id.to_owned() },
            };
            match self.own_function(&key) {
                Some(function) => self.roots.get(ctx, function).map_err(|_| too_many_refs()),
                None => {
                    let declared = matches!(source, ValueSource::Client(_)).then_some(fields);
                    self.import(ctx, &kit, (key, name), declared)
                }
            }
        };
        let mut decoder =
            Decoder { ctx, kit: &kit, import: &mut import, depth_left: self.limits.value_depth_max };
        build(&mut decoder)
    }

    /// The function of the script that a handler was given and now passes back.
    fn own_function(&self, key: &FnRef) -> Option<RootId> {
        let machine = self.machine();
        let references = &machine.state.references;
        match references.exported(RefHolder::Handler, key.script_number()?)? {
            callable @ Callable::Script(_) => references.root_of(callable),
            Callable::Outside(_) => None,
        }
    }

    /// Makes a function of one that is received, and counts it. A refused one leaves nothing behind.
    fn import<'js>(
        &self,
        ctx: &Ctx<'js>,
        kit: &Kit<'_, 'js>,
        (key, name): (FnRef, &str),
        declared: Option<&Map<String, Value>>,
    ) -> Result<Function<'js>, DecodeError> {
        if !self.machine().state.references.has_room_for(&key) {
            return Err(too_many_refs());
        }
        let compiled = declared.map(|fields| self.compile_schemas(&key, fields)).transpose()?.flatten();
        {
            let references = &mut self.machine_mut().state.references;
            references.import(&key).map_err(|_| too_many_refs())?;
            if let Some(schemas) = compiled {
                references.set_import_schemas(&key, schemas);
            }
        }
        let text = key.to_string();
        let imported = kit("importFunction").and_then(|import| import.call((text, name)));
        imported.map_err(|error| {
            if error.is_exception() {
                ctx.catch();
            }
            too_many_refs()
        })
    }

    /// A function of the client may declare what it takes and returns; calls of it are checked. What it declared first
    /// stays, so that a function that is sent often is compiled once.
    fn compile_schemas(
        &self,
        key: &FnRef,
        fields: &Map<String, Value>,
    ) -> Result<Option<Arc<FunctionSchemas>>, DecodeError> {
        if self.machine().state.references.import_schemas(key).is_some() {
            return Ok(None);
        }
        let budget = self.schema_budget.borrow();
        let schemas = FunctionSchemas::compile(fields, SchemaSource::Client(&budget))
            .map_err(|error| DecodeError { message: error.message, path: error.path, kind: None })?;
        Ok((!schemas.is_empty()).then(|| Arc::new(schemas)))
    }
}

fn too_many_refs() -> DecodeError {
    let message = "too many live function references".to_owned();
    DecodeError { message, path: String::new(), kind: Some(Kind::TooManyRefs) }
}

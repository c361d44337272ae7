//! The functions that the prelude calls: how a script reaches its session.
//!
//! They are given to the prelude as one object that no script ever sees.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rquickjs::{Ctx, Exception, Function, Object, Persistent, Promise, String as JsString, Value as JsValue};
use serde_json::{Map, Value, json};

use super::super::value::{DecodeError, Decoder, EncodeError, Encoder, Fault};
use super::{Callable, ConsoleLine, Guest, Holder, Origin, Owner, Reach, Settlers};
use crate::binding::FunctionSchemas;
use crate::rpc::{ErrorObject, Kind};
use crate::scomp::methods::Payload;

/// Makes the host object.
pub(crate) fn install<'js>(ctx: &Ctx<'js>, guest: &Rc<Guest>) -> rquickjs::Result<Object<'js>> {
    let host = Object::new_proto(ctx.clone(), None)?;
    super::super::host::install(&host)?;
    install_output(ctx, guest, &host)?;
    install_timers(ctx, guest, &host)?;
    install_calls(ctx, guest, &host)?;
    Ok(host)
}

fn install_output<'js>(ctx: &Ctx<'js>, guest: &Rc<Guest>, host: &Object<'js>) -> rquickjs::Result<()> {
    let state = Rc::clone(guest);
    let write = move |level: String, text: JsString<'_>| state.print(&level, text_of(&text));
    host.set("write", Function::new(ctx.clone(), write)?)?;
    let state = Rc::clone(guest);
    let report = move |ctx: Ctx<'js>, error: JsValue<'js>| {
        let text = state.describe(&ctx, error);
        state.print("error", format!("Uncaught {text}"));
    };
    host.set("reportError", Function::new(ctx.clone(), report)?)?;
    let epoch = guest.epoch;
    host.set("now", Function::new(ctx.clone(), move || epoch.elapsed().as_secs_f64() * 1000.0)?)?;
    Ok(())
}

fn install_timers<'js>(ctx: &Ctx<'js>, guest: &Rc<Guest>, host: &Object<'js>) -> rquickjs::Result<()> {
    let state = Rc::clone(guest);
    let set = move |ctx: Ctx<'js>, timer: u64, delay_ms: f64| {
        let delay = Duration::try_from_secs_f64(delay_ms / 1000.0).unwrap_or(Duration::from_millis(1));
        if state.timers.borrow_mut().set(timer, Instant::now() + delay, state.owner.get()) {
            Ok(())
        } else {
            let limit = state.limits.timers_max;
            Err(Exception::throw_range(&ctx, &format!("too many timers: a session may have {limit}")))
        }
    };
    host.set("setTimer", Function::new(ctx.clone(), set)?)?;
    let state = Rc::clone(guest);
    let clear = move |timer: u64| state.timers.borrow_mut().clear(timer);
    host.set("clearTimer", Function::new(ctx.clone(), clear)?)?;
    Ok(())
}

fn install_calls<'js>(ctx: &Ctx<'js>, guest: &Rc<Guest>, host: &Object<'js>) -> rquickjs::Result<()> {
    let state = Rc::clone(guest);
    let call = move |ctx: Ctx<'js>, name: String, count: usize, input: JsValue<'js>| {
        state.call_binding(&ctx, name, count, &input)
    };
    host.set("call", Function::new(ctx.clone(), call)?)?;
    let state = Rc::clone(guest);
    let call =
        move |ctx: Ctx<'js>, key: String, arguments: Object<'js>| state.call_import(&ctx, key, &arguments);
    host.set("callReference", Function::new(ctx.clone(), call)?)?;
    let state = Rc::clone(guest);
    let release = move |key: String, count: u64| {
        state.imports.borrow_mut().remove(&key);
        state.import_schemas.borrow_mut().remove(&key);
        state.dropped.borrow_mut().push((key, count));
    };
    host.set("release", Function::new(ctx.clone(), release)?)?;
    Ok(())
}

/// A function of the prelude's; those that few sessions need are loaded when one is missing.
pub(crate) fn kit_function<'js>(kit: &Object<'js>, name: &str) -> rquickjs::Result<Function<'js>> {
    if let Some(function) = kit.get::<_, Option<Function<'js>>>(name)? {
        return Ok(function);
    }
    kit.get::<_, Function<'js>>("complete")?.call::<_, ()>(())?;
    kit.get(name)
}

/// The number in the reference of a function of the script, `f7` or `host:7`.
fn function_number(reference: &str) -> Option<u64> {
    reference.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// A string for people; lone surrogates become U+FFFD.
fn text_of(text: &JsString<'_>) -> String {
    text.to_string().unwrap_or_else(|_| {
        text.ctx()
            .json_stringify(text.clone())
            .ok()
            .flatten()
            .and_then(|json| json.to_string().ok())
            .unwrap_or_default()
    })
}

impl Guest {
    /// Keeps a console line.
    pub(crate) fn print(&self, level: &str, text: String) {
        let mut console = self.console.borrow_mut();
        let late = !matches!(self.owner.get(), Owner::Eval(_));
        let at_ms = u64::try_from(self.eval_started.get().elapsed().as_millis()).unwrap_or(u64::MAX);
        console.push(ConsoleLine { level: level.to_owned(), text, at_ms, late });
    }

    /// A thrown value in words.
    pub(crate) fn describe<'js>(&self, ctx: &Ctx<'js>, thrown: JsValue<'js>) -> String {
        let describe =
            || -> rquickjs::Result<String> { kit_function(&self.kit(ctx)?, "thrownHeader")?.call((thrown,)) };
        describe().unwrap_or_else(|error| {
            if error.is_exception() {
                ctx.catch();
            }
            "an error that cannot be shown".to_owned()
        })
    }

    /// The functions of the prelude.
    pub(crate) fn kit<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
        let kit = self.kit.borrow().clone().ok_or(rquickjs::Error::Unknown)?;
        kit.restore(ctx)
    }

    fn call_binding<'js>(
        &self,
        ctx: &Ctx<'js>,
        name: String,
        count: usize,
        input: &JsValue<'js>,
    ) -> rquickjs::Result<Promise<'js>> {
        let (promise, resolve, reject) = ctx.promise()?;
        let reach =
            if self.registry.get(&name).is_some() { Reach::Server(name) } else { Reach::Client(name) };
        let holder = if matches!(reach, Reach::Server(_)) { Holder::Host } else { Holder::Client };
        let mut handed = Vec::new();
        let payload = match count {
            0 => Ok(json!({})),
            1 => self.encode(ctx, input, holder, &mut handed),
            _ => {
                let error = Exception::throw_type(ctx, "a binding takes one argument");
                debug_assert!(error.is_exception());
                reject.call::<_, ()>((ctx.catch(),))?;
                return Ok(promise);
            }
        };
        match payload {
            Ok(input) => {
                self.note_places(&reach, &input);
                let ends = (resolve, reject);
                self.open_call(ctx, ends, reach, Payload::Input(input), handed)?;
            }
            Err(error) => self.reject_unencodable(ctx, &reject, &error)?,
        }
        Ok(promise)
    }

    fn call_import<'js>(
        &self,
        ctx: &Ctx<'js>,
        key: String,
        arguments: &Object<'js>,
    ) -> rquickjs::Result<Promise<'js>> {
        let (promise, resolve, reject) = ctx.promise()?;
        let holder = if key.starts_with("native:") { Holder::Host } else { Holder::Client };
        let mut handed = Vec::new();
        let mut encoded = Vec::new();
        let count: u32 = arguments.get("length")?;
        for index in 0..count {
            let argument: JsValue<'js> = arguments.get(index)?;
            match self.encode(ctx, &argument, holder, &mut handed) {
                Ok(value) => encoded.push(value),
                Err(error) => {
                    self.reject_unencodable(ctx, &reject, &error)?;
                    return Ok(promise);
                }
            }
        }
        let payload = match <[Value; 1]>::try_from(encoded) {
            Ok([input]) => Payload::Input(input),
            Err(arguments) => Payload::Args(arguments),
        };
        self.open_call(ctx, (resolve, reject), Reach::Import(key), payload, handed)?;
        Ok(promise)
    }

    fn open_call<'js>(
        &self,
        ctx: &Ctx<'js>,
        (resolve, reject): (Function<'js>, Function<'js>),
        reach: Reach,
        payload: Payload,
        handed: Vec<String>,
    ) -> rquickjs::Result<()> {
        let owner = self.owner.get();
        if owner == Owner::Nobody && !self.limits.floating_calls {
            let error = self.error(ctx, Kind::Cancelled, "the eval that made this call is over", None)?;
            return reject.call((error,));
        }
        let calls_max = self.limits.calls_per_eval_max;
        let is_allowed = self.calls.borrow_mut().charge(owner, calls_max);
        if !is_allowed {
            let message = format!("an eval may make {calls_max} binding calls");
            let error = self.error(ctx, Kind::TooManyCalls, &message, None)?;
            return reject.call((error,));
        }
        let settlers = Settlers {
            resolve: Persistent::save(ctx, resolve),
            reject: Persistent::save(ctx, reject),
            owner,
        };
        self.calls.borrow_mut().open(settlers, reach, payload, handed);
        Ok(())
    }

    fn reject_unencodable<'js>(
        &self,
        ctx: &Ctx<'js>,
        reject: &Function<'js>,
        error: &EncodeError,
    ) -> rquickjs::Result<()> {
        let path = json!(error.path());
        let thrown = match &error.fault {
            Fault::Unserializable(why) => self.error(ctx, Kind::Unserializable, why, Some(("path", path)))?,
            Fault::TooLarge => {
                self.error(ctx, Kind::ResultTooLarge, "the input is too large", Some(("path", path)))?
            }
            Fault::TooManyRefs => {
                self.error(ctx, Kind::TooManyRefs, "too many live function references", None)?
            }
            Fault::Stopped => return Ok(()),
        };
        reject.call((thrown,))
    }

    fn error<'js>(
        &self,
        ctx: &Ctx<'js>,
        kind: Kind,
        message: &str,
        detail: Option<(&str, Value)>,
    ) -> rquickjs::Result<JsValue<'js>> {
        let mut error = ErrorObject::new(kind, message);
        if let Some((key, value)) = detail {
            error = error.with(key, value);
        }
        self.thrown_from(ctx, &error, Origin::Host)
    }

    /// The `Error` that a script catches for a failed call.
    pub(crate) fn thrown_from<'js>(
        &self,
        ctx: &Ctx<'js>,
        error: &ErrorObject,
        origin: Origin,
    ) -> rquickjs::Result<JsValue<'js>> {
        let make = kit_function(&self.kit(ctx)?, "makeBindingError")?;
        let data = match &error.data {
            Some(data) => self.decode(ctx, data, origin).unwrap_or_else(|_| JsValue::new_null(ctx.clone())),
            None => JsValue::new_undefined(ctx.clone()),
        };
        #[allow(clippy::cast_precision_loss)]
        let code = error.code as f64;
        let name = error.kind().unwrap_or(Kind::BindingError.name());
        make.call((name, error.message.as_str(), code, data))
    }

    /// Walks a value of the script; functions in it go to `holder`, and are listed in `handed`.
    pub(crate) fn encode<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: &JsValue<'js>,
        holder: Holder,
        handed: &mut Vec<String>,
    ) -> Result<Value, EncodeError> {
        let unusable = |_| EncodeError::new(Fault::Unserializable("the prelude is gone".to_owned()));
        let kit = self.kit(ctx).map_err(unusable)?;
        let identify = kit_function(&kit, "identify").map_err(unusable)?;
        let mut export = |function: Function<'js>| {
            let name: String = function.get("name").unwrap_or_else(|_| {
                ctx.catch();
                String::new()
            });
            let number: u64 = identify.call((function.clone(),)).map_err(unusable)?;
            let callable = Callable::Script(number, Persistent::save(ctx, function));
            let id = self.functions.borrow_mut().hand_out(holder, callable);
            let id = id.ok_or_else(|| EncodeError::new(Fault::TooManyRefs))?;
            let id = match holder {
                Holder::Client => format!("f{id}"),
                Holder::Host => format!("host:{id}"),
            };
            handed.push(id.clone());
            Ok(json!({"$fn": id, "name": name}))
        };
        let mut encoder = Encoder {
            ctx,
            kit: &kit,
            export: &mut export,
            bytes_left: self.limits.result_bytes_max,
            depth_max: self.limits.value_depth_max,
            ancestors: Vec::new(),
        };
        let encoded = encoder.top(value);
        if encoded.is_err() {
            self.take_back(holder, handed);
        }
        encoded
    }

    /// What was handed out in a value that is not sent after all.
    fn take_back(&self, holder: Holder, handed: &mut Vec<String>) {
        for id in handed.drain(..) {
            let number = function_number(&id).unwrap_or_default();
            let gone = self.functions.borrow_mut().give_back(holder, number, 1);
            drop(gone);
        }
    }

    /// Builds a value for the script.
    pub(crate) fn decode<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: &Value,
        origin: Origin,
    ) -> Result<JsValue<'js>, DecodeError> {
        let kit = match self.kit(ctx) {
            Ok(kit) => kit,
            Err(_) => return Ok(JsValue::new_undefined(ctx.clone())),
        };
        let mut import = |id: &str, name: &str, fields: &Map<String, Value>| {
            let key = self.import_key(origin, id);
            if origin == Origin::Client {
                self.note_schemas(&key, fields)?;
            }
            self.import(ctx, &kit, origin, (&key, name)).map_err(|error| {
                if error.is_exception() {
                    ctx.catch();
                }
                DecodeError::new("no room for one more function")
            })
        };
        let mut decoder =
            Decoder { ctx, kit: &kit, import: &mut import, depth_left: self.limits.value_depth_max };
        decoder.value(value)
    }

    fn import_key(&self, origin: Origin, id: &str) -> String {
        match origin {
            Origin::Host => id.to_owned(),
            Origin::Client => format!("{}:{id}", self.attachment.get()),
        }
    }

    /// A reference may say what it takes and gives; calls of it are checked.
    fn note_schemas(&self, key: &str, fields: &Map<String, Value>) -> Result<(), DecodeError> {
        let schemas = FunctionSchemas::compile(&Value::Object(fields.clone()))
            .map_err(|error| DecodeError { message: error.message, path: error.path })?;
        if !schemas.is_empty() {
            self.import_schemas.borrow_mut().insert(key.to_owned(), Arc::new(schemas));
        }
        Ok(())
    }

    /// The binding that a function goes to may say what it is to take and give.
    fn note_places(&self, reach: &Reach, input: &Value) {
        let client = self.client_bindings.borrow();
        let places = match reach {
            Reach::Server(name) => self.registry.get(name).map(|binding| binding.places.as_slice()),
            Reach::Client(name) => client.get(name).map(Vec::as_slice),
            Reach::Import(_) => None,
        };
        for place in places.unwrap_or_default() {
            if let Some(id) = place.reference(input).and_then(function_number) {
                self.export_schemas.borrow_mut().insert(id, Arc::clone(&place.schemas));
            }
        }
    }

    fn import<'js>(
        &self,
        ctx: &Ctx<'js>,
        kit: &Object<'js>,
        origin: Origin,
        (key, name): (&str, &str),
    ) -> rquickjs::Result<Function<'js>> {
        if origin == Origin::Host
            && let Some(number) = key.strip_prefix("host:").and_then(|number| number.parse().ok())
            && let Some(Callable::Script(_, function)) = self.functions.borrow().get(Holder::Host, number)
        {
            return function.restore(ctx);
        }
        {
            let mut imports = self.imports.borrow_mut();
            if imports.len() >= self.limits.references_max && !imports.contains_key(key) {
                return Err(Exception::throw_range(ctx, "too many live function references"));
            }
            *imports.entry(key.to_owned()).or_default() += 1;
        }
        kit_function(kit, "importFunction")?.call((key, name))
    }
}

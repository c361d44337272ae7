//! The functions that the prelude calls: how a script reaches its session.
//!
//! They are given to the prelude as one object that no script ever sees.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::{Ctx, Exception, Function, Object, String as JsString, Value as JsValue};

use super::{ChargedTo, ConsoleLine, Guest};
use crate::protocol::fn_ref::FnRef;

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
    let number_of = move |name: String| state.registry.number_of(&name);
    host.set("numberOf", Function::new(ctx.clone(), number_of)?)?;
    let state = Rc::clone(guest);
    let call = move |ctx: Ctx<'js>, key: JsValue<'js>, count: usize, input: JsValue<'js>| {
        state.call_binding(&ctx, &key, count, &input)
    };
    host.set("call", Function::new(ctx.clone(), call)?)?;
    let state = Rc::clone(guest);
    let call = move |ctx: Ctx<'js>, key: String, arguments: Object<'js>| {
        state.call_import(&ctx, FnRef::parse_or_unknown(&key), &arguments)
    };
    host.set("callReference", Function::new(ctx.clone(), call)?)?;
    let state = Rc::clone(guest);
    let release = move |key: String| {
        let name = FnRef::parse_or_unknown(&key);
        let received = state.imports.borrow_mut().remove(&name);
        state.dropped.borrow_mut().extend(received.map(|count| (name, count)));
    };
    host.set("release", Function::new(ctx.clone(), release)?)?;
    let state = Rc::clone(guest);
    host.set("noteShadow", Function::new(ctx.clone(), move || state.has_shadows.set(true))?)?;
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
        let late = !matches!(self.owner.get(), ChargedTo::Eval(_));
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
}

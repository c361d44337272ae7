//! The host functions that need the session: output, timers, calls, time and chance.
//!
//! Their names for the prelude are in the table of `../host/mod.rs`, which says how to add one.

use std::any::Any;
use std::time::Duration;

use rquickjs::{
    ArrayBuffer, Ctx, Exception, Function, Object, Promise, String as JsString, Value as JsValue,
};

use super::super::host::uuid_text;
use super::Guest;
use crate::protocol::fn_ref::FnRef;
use crate::session::tables::ConsoleLine;
use crate::session::{ChargedTo, Stop};

/// Most bytes one call may ask for; the Web Crypto specification sets it for `getRandomValues`.
const RANDOM_BYTES_MAX: usize = 65_536;

impl Guest {
    /// `host.write(level, text)`: keeps a console line.
    pub(crate) fn write(&self, _: &Ctx<'_>, (level, text): (String, JsString<'_>)) {
        self.print(&level, text_of(&text));
    }

    /// `host.reportError(error)`: what a callback threw goes to the console.
    pub(crate) fn report_error<'js>(&self, ctx: &Ctx<'js>, (error,): (JsValue<'js>,)) {
        let text = self.describe(ctx, error);
        self.print("error", format!("Uncaught {text}"));
    }

    /// `host.mapStack(frames)`: frames with the places of the code as sent.
    pub(crate) fn map_stack(&self, _: &Ctx<'_>, (frames,): (JsString<'_>,)) -> String {
        self.machine().state.source_maps.map(&text_of(&frames))
    }

    /// `host.setTimer(timer, delay)`, in milliseconds.
    pub(crate) fn set_timer(&self, ctx: &Ctx<'_>, (timer, delay_ms): (u64, f64)) -> rquickjs::Result<()> {
        let delay = Duration::try_from_secs_f64(delay_ms / 1000.0).unwrap_or(Duration::from_millis(1));
        let is_set = {
            let shared = self.shared();
            let at = shared.clock.now() + delay;
            let tables = &mut shared.machine.borrow_mut().state;
            let charged_to = tables.in_turn.unwrap_or(ChargedTo::Background);
            tables.timers.set(timer, at, charged_to)
        };
        if is_set {
            return Ok(());
        }
        let limit = self.limits.timers_max;
        Err(Exception::throw_range(ctx, &format!("too many timers: a session may have {limit}")))
    }

    /// `host.clearTimer(timer)`.
    pub(crate) fn clear_timer(&self, _: &Ctx<'_>, (timer,): (u64,)) {
        self.machine_mut().state.timers.clear(timer);
    }

    /// `host.numberOf(name)`: the number of a binding of the server; none if the client has one of that name.
    pub(crate) fn number_of(&self, _: &Ctx<'_>, (name,): (String,)) -> Option<u32> {
        self.machine().server_binding(&name)
    }

    /// `host.callReference(reference, arguments)`.
    pub(crate) fn call_reference<'js>(
        &self,
        ctx: &Ctx<'js>,
        (key, arguments): (String, Object<'js>),
    ) -> rquickjs::Result<Promise<'js>> {
        self.call_import(ctx, FnRef::parse_or_unknown(&key), &arguments)
    }

    /// `host.release(reference)`: the script has lost a function that it was given.
    pub(crate) fn release_reference(&self, _: &Ctx<'_>, (key,): (String,)) {
        self.machine_mut().drop_import(FnRef::parse_or_unknown(&key));
    }

    /// `host.noteShadow()`: the script has put something in the place of a binding.
    pub(crate) fn note_shadow(&self, _: &Ctx<'_>, (): ()) {
        self.machine_mut().state.has_shadows = true;
    }

    /// `host.now()`: milliseconds since the session began.
    pub(crate) fn now_ms(&self, _: &Ctx<'_>, (): ()) -> f64 {
        self.shared().clock.now().since_start().as_secs_f64() * 1000.0
    }

    /// `host.timeOrigin()`.
    pub(crate) fn time_origin_ms(&self, _: &Ctx<'_>, (): ()) -> f64 {
        self.shared().clock.origin_ms()
    }

    /// `host.randomBytes(length)`.
    pub(crate) fn random_bytes<'js>(
        &self,
        ctx: &Ctx<'js>,
        (length,): (usize,),
    ) -> rquickjs::Result<ArrayBuffer<'js>> {
        if length > RANDOM_BYTES_MAX {
            return Err(Exception::throw_range(ctx, "too many random bytes"));
        }
        let mut bytes = vec![0; length];
        self.fill_random(ctx, &mut bytes)?;
        ArrayBuffer::new_copy(ctx.clone(), bytes)
    }

    /// `host.randomUUID()`.
    pub(crate) fn random_uuid(&self, ctx: &Ctx<'_>, (): ()) -> rquickjs::Result<String> {
        let mut bytes = [0; 16];
        self.fill_random(ctx, &mut bytes)?;
        Ok(uuid_text(bytes))
    }

    fn fill_random(&self, ctx: &Ctx<'_>, bytes: &mut [u8]) -> rquickjs::Result<()> {
        match self.shared().clock.fill_random(bytes) {
            true => Ok(()),
            false => Err(Exception::throw_internal(ctx, "no source of random bytes")),
        }
    }

    /// Ends the turn after a panic of `what`, which must not go on through the frames of C below it.
    pub(crate) fn stop_after_panic(&self, what: &str, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
        tracing::error!(what, panic = text, "panicked while a script ran; the turn is stopped");
        self.meter.request_stop(Stop::Internal);
    }

    /// Keeps a console line.
    pub(crate) fn print(&self, level: &str, text: String) {
        let shared = self.shared();
        let now = shared.clock.now();
        let tables = &mut shared.machine.borrow_mut().state;
        let late = !matches!(tables.in_turn, Some(ChargedTo::Eval(_)));
        let at_ms = now.saturating_since(tables.evals.last_started()).as_millis();
        let at_ms = u64::try_from(at_ms).unwrap_or(u64::MAX);
        tables.console.push(ConsoleLine { level: level.to_owned(), text, at_ms, late });
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
        self.roots.get(ctx, self.kit.get().ok_or(rquickjs::Error::Unknown)?)
    }
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

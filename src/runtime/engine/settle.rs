//! What happens until something that runs is over: answers, timers, jobs, and the look at its promise.

use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Object, Promise, Value as JsValue};

use super::super::raw;
use super::super::source;
use super::super::thrown::{self, SourceMap};
use super::super::value::{EncodeError, Fault, Text, Tree};
use super::{Engine, Look, map_of};
use crate::limits::Limits;
use crate::rpc::{ErrorObject, Kind};
use crate::session::tables::{Rejection, ScriptCall};
use crate::session::{AwaitedPromise, ChargedTo, Encoded, RefHolder, RootId, Settled, Settlement};

impl Engine {
    /// Settles a call that the script waits for.
    pub(crate) fn settle(&self, ctx: &Ctx<'_>, settlement: Settlement) {
        let Settlement { call, outcome, source, .. } = settlement;
        let waiting = self.guest.machine_mut().state.script_calls.take(call);
        let Some(ScriptCall { resolve, reject, stack, .. }) = waiting else { return };
        let roots = &self.guest.roots;
        let settled = roots.get(ctx, resolve).and_then(|resolve| {
            let reject = roots.get(ctx, reject)?;
            self.guest.settle(ctx, &resolve, &reject, (outcome, source), Some(&stack))
        });
        roots.release(resolve);
        roots.release(reject);
        self.ignore(ctx, settled);
    }

    /// Runs the callback of a timer; what it throws goes to the console.
    pub(crate) fn fire_timer(&self, ctx: &Ctx<'_>, timer: u64) {
        let fired = self.kit(ctx, "fireTimer").and_then(|fire| fire.call::<_, ()>((timer,)));
        if let Err(error) = fired
            && error.is_exception()
        {
            let thrown = ctx.catch();
            if !thrown.is_uncatchable_error() {
                let text = self.guest.describe(ctx, thrown);
                self.guest.print("error", format!("Uncaught {text}"));
            }
        }
    }

    /// Runs jobs until `main` is settled, nothing is left to do, or the script is stopped; returns where it was then.
    pub(crate) fn run_jobs(&self, ctx: &Ctx<'_>, main: Option<&Promise<'_>>) -> Option<String> {
        let is_over = || {
            self.guest.meter.stopped().is_some()
                || main.is_some_and(|promise| promise.state() != PromiseState::Pending)
        };
        while !is_over() {
            match raw::execute_job(ctx)? {
                Ok(()) => {}
                // Only what ends the script comes here; anything else rejects a promise.
                Err(_) => {
                    let thrown = ctx.catch();
                    if thrown.is_uncatchable_error() {
                        return thrown::stack_of(ctx, &self.guest, thrown);
                    }
                }
            }
        }
        None
    }

    /// How an awaited promise ended, if it has. A promise inside is awaited in its place.
    pub(crate) fn look_at(&self, ctx: &Ctx<'_>, awaited: &mut AwaitedPromise) -> Look {
        let roots = &self.guest.roots;
        let Ok(promise) = roots.get::<Promise<'_>>(ctx, awaited.promise) else {
            return Look::Pending;
        };
        let outcome = match promise.result::<Object<'_>>() {
            None => return Look::Pending,
            Some(Ok(result)) => match result.get::<_, JsValue<'_>>("value") {
                Ok(value) if value.is_promise() => match self.wrap(ctx, value) {
                    Ok(promise) => match self.hold(ctx, promise) {
                        Ok(promise) => {
                            roots.release(std::mem::replace(&mut awaited.promise, promise));
                            return Look::Again;
                        }
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(self.failure(ctx, error, &map_of(awaited))),
                },
                Ok(value) => {
                    let settled = self.settled(ctx, awaited.charged_to, &value, awaited.holder);
                    match self.promises_inside(ctx, &value, &settled, awaited.is_unwrapped) {
                        None => return Look::Over(settled),
                        Some(promise) => {
                            roots.release(std::mem::replace(&mut awaited.promise, promise));
                            awaited.is_unwrapped = true;
                            return Look::Again;
                        }
                    }
                }
                Err(error) => Err(self.failure(ctx, error, &map_of(awaited))),
            },
            Some(Err(error)) => {
                self.guest.forget_rejection(ctx, promise.as_value());
                Err(self.failure(ctx, error, &map_of(awaited)))
            }
        };
        Look::Over(Settled { charged_to: awaited.charged_to, outcome, exported: Vec::new() })
    }

    /// The end of something that gave this value. The client gets it as text, a handler as a tree.
    pub(super) fn settled<'js>(
        &self,
        ctx: &Ctx<'js>,
        charged_to: ChargedTo,
        value: &JsValue<'js>,
        holder: RefHolder,
    ) -> Settled {
        let (guest, mut exported) = (&self.guest, Vec::new());
        let encoded = match (charged_to, holder) {
            (ChargedTo::Eval(_), _) | (ChargedTo::Invocation(_), RefHolder::Client) => {
                guest.encode::<Text>(ctx, value, holder, &mut exported).map(Encoded::Text)
            }
            (ChargedTo::Invocation(_), RefHolder::Handler) | (ChargedTo::Background, _) => {
                guest.encode::<Tree>(ctx, value, holder, &mut exported).map(Encoded::Tree)
            }
        };
        let outcome = encoded.map_err(|error| encode_failure(&error, &guest.limits));
        Settled { charged_to, outcome, exported }
    }

    /// If a value could not be sent because of promises inside of it: a promise of the value with these awaited. Only once:
    /// what is unsettled then lies too deep, and is refused.
    pub(super) fn promises_inside<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: &JsValue<'js>,
        settled: &Settled,
        is_unwrapped: bool,
    ) -> Option<RootId> {
        let error = settled.outcome.as_ref().err().filter(|_| !is_unwrapped)?;
        if !error.is(Kind::Unserializable) || error.message != UNSETTLED {
            return None;
        }
        let promise =
            self.kit(ctx, "awaitInside").and_then(|wait| wait.call::<_, Promise<'js>>((value.clone(),)));
        match promise {
            Ok(promise) => self.hold(ctx, promise).ok(),
            Err(error) => {
                self.ignore::<()>(ctx, Err(error));
                None
            }
        }
    }

    /// A promise of `{value}`, which is what an eval gives.
    pub(super) fn wrap<'js>(&self, ctx: &Ctx<'js>, value: JsValue<'js>) -> rquickjs::Result<Promise<'js>> {
        self.kit(ctx, "settle")?.call((value,))
    }

    /// The value of a code that is data alone; `None` when it is not, and has to be run.
    pub(super) fn read_data<'js>(&self, ctx: &Ctx<'js>, code: &str) -> Option<JsValue<'js>> {
        let read = ctx.json_parse(source::json_of(code)?);
        if read.is_err() {
            ctx.catch();
        }
        read.ok()
    }

    /// The error for what was thrown.
    pub(super) fn failure(&self, ctx: &Ctx<'_>, error: rquickjs::Error, map: &SourceMap<'_>) -> ErrorObject {
        if !error.is_exception() {
            return ErrorObject::new(Kind::Internal, error.to_string());
        }
        self.describe_thrown(ctx, ctx.catch(), map)
    }

    /// The error for a thrown value.
    pub(super) fn describe_thrown<'js>(
        &self,
        ctx: &Ctx<'js>,
        thrown: JsValue<'js>,
        map: &SourceMap<'_>,
    ) -> ErrorObject {
        let is_null = thrown.is_null();
        match thrown::describe(ctx, &self.guest, thrown, map) {
            // With no memory left QuickJS cannot even make the error, and throws null.
            Some(error) if !is_null || !self.is_out_of_memory() => error,
            None if !self.is_out_of_memory() => {
                ErrorObject::new(Kind::EvalError, "an error that cannot be shown")
            }
            Some(_) | None => ErrorObject::new(Kind::MemoryLimit, "InternalError: out of memory"),
        }
    }

    fn is_out_of_memory(&self) -> bool {
        let limit = self.guest.limits.memory_bytes_max;
        self.used.bytes() > limit - limit / 8 || self.used.refused_by_total().is_some()
    }

    /// Reports the rejections that were not handled by the end of the turn.
    pub(crate) fn report_rejections(&self, ctx: &Ctx<'_>) {
        let rejections = std::mem::take(&mut self.guest.machine_mut().state.rejections);
        for Rejection { promise, reason } in rejections {
            let thrown = self.guest.roots.get::<JsValue<'_>>(ctx, reason);
            self.guest.roots.release(promise);
            self.guest.roots.release(reason);
            if let Ok(reason) = thrown {
                let text = self.guest.describe(ctx, reason.clone());
                let place = thrown::stack_of(ctx, &self.guest, reason);
                let place = place.as_deref().and_then(|stack| stack.lines().next());
                let place = place.map_or_else(String::new, |place| format!("\n{place}"));
                self.guest.print("error", format!("Uncaught (in promise) {text}{place}"));
            }
        }
    }
}

/// The message for a promise inside of a value.
const UNSETTLED: &str = "the value cannot be sent: it holds a Promise, await it first";

fn encode_failure(error: &EncodeError, limits: &Limits) -> ErrorObject {
    match &error.fault {
        Fault::Unserializable(why) => {
            ErrorObject::new(Kind::Unserializable, format!("the value cannot be sent: {why}"))
                .with("path", error.path())
        }
        Fault::Unsettled => ErrorObject::new(Kind::Unserializable, UNSETTLED).with("path", error.path()),
        Fault::TooLarge => {
            let max = limits.result_bytes_max;
            ErrorObject::new(Kind::ResultTooLarge, format!("the value is larger than {max} bytes of JSON"))
        }
        Fault::TooManyRefs => {
            let max = limits.references_max;
            ErrorObject::new(Kind::TooManyRefs, format!("more than {max} live function references"))
        }
        Fault::Stopped => ErrorObject::new(Kind::Timeout, "stopped while the value was read"),
    }
}

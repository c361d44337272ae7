//! What happens until something that runs is over: answers, timers, jobs, and the look at its promise.

use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Object, Promise, Value as JsValue};

use super::super::guest::{CallAnswer, ChargedTo, RefHolder, Settlers};
use super::super::source;
use super::super::thrown::{self, SourceMap};
use super::super::value::{EncodeError, Encoded, Fault, Text, Tree};
use super::{Engine, Look, Settled, Watched};
use crate::limits::Limits;
use crate::rpc::{ErrorObject, Kind};

impl Engine {
    /// Settles a call that the script waits for.
    pub(crate) fn settle(&self, ctx: &Ctx<'_>, call: u64, answer: CallAnswer) {
        let Some(Settlers { resolve, reject, stack, .. }) = self.guest.calls.borrow_mut().take(call) else {
            return;
        };
        let settled = resolve.restore(ctx).and_then(|resolve| {
            let reject = reject.restore(ctx)?;
            self.guest.settle(ctx, &resolve, &reject, answer, Some(&stack))
        });
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

    /// Runs jobs until `main` is settled, nothing is left to do, or the script is stopped.
    pub(crate) fn run_jobs(&self, ctx: &Ctx<'_>, main: Option<&Promise<'_>>) {
        let is_over = || {
            self.guest.meter.stopped().is_some()
                || main.is_some_and(|promise| promise.state() != PromiseState::Pending)
        };
        while !is_over() && ctx.execute_pending_job() {}
    }

    /// How a watched promise ended, if it has. A promise inside is awaited in its place.
    pub(crate) fn look_at(&self, ctx: &Ctx<'_>, watched: &mut Watched) -> Look {
        let Ok(promise) = watched.promise.get::<Promise<'_>>(ctx) else {
            return Look::Pending;
        };
        let outcome = match promise.result::<Object<'_>>() {
            None => return Look::Pending,
            Some(Ok(result)) => match result.get::<_, JsValue<'_>>("value") {
                Ok(value) if value.is_promise() => match self.wrap(ctx, value) {
                    Ok(promise) => match self.hold(ctx, promise) {
                        Ok(promise) => {
                            watched.promise = promise;
                            return Look::Again;
                        }
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(self.failure(ctx, error, &watched.map())),
                },
                Ok(value) => return Look::Over(self.settled(ctx, watched.owner, &value, watched.holder)),
                Err(error) => Err(self.failure(ctx, error, &watched.map())),
            },
            Some(Err(error)) => {
                self.forget_rejection(ctx, promise.as_value());
                Err(self.failure(ctx, error, &watched.map()))
            }
        };
        Look::Over(Settled { owner: watched.owner, outcome, exported: Vec::new() })
    }

    /// The end of something that gave this value. The client gets it as text, a handler as a tree.
    pub(super) fn settled<'js>(
        &self,
        ctx: &Ctx<'js>,
        owner: ChargedTo,
        value: &JsValue<'js>,
        holder: RefHolder,
    ) -> Settled {
        let (guest, mut exported) = (&self.guest, Vec::new());
        let encoded = match (owner, holder) {
            (ChargedTo::Eval(_), _) | (ChargedTo::Invocation(_), RefHolder::Client) => {
                guest.encode::<Text>(ctx, value, holder, &mut exported).map(Encoded::Text)
            }
            (ChargedTo::Invocation(_), RefHolder::Handler) | (ChargedTo::Background, _) => {
                guest.encode::<Tree>(ctx, value, holder, &mut exported).map(Encoded::Tree)
            }
        };
        let outcome = encoded.map_err(|error| encode_failure(&error, &guest.limits));
        Settled { owner, outcome, exported }
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
        self.told(ctx, ctx.catch(), map)
    }

    /// The error for a thrown value.
    pub(super) fn told<'js>(&self, ctx: &Ctx<'js>, thrown: JsValue<'js>, map: &SourceMap<'_>) -> ErrorObject {
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

    /// Reports the rejections that nobody handled by the end of the turn.
    pub(crate) fn report_rejections(&self, ctx: &Ctx<'_>) {
        for rejection in self.guest.rejections.take() {
            if let Ok(reason) = rejection.reason.restore(ctx) {
                let text = self.guest.describe(ctx, reason);
                self.guest.print("error", format!("Uncaught (in promise) {text}"));
            }
        }
    }

    fn forget_rejection<'js>(&self, ctx: &Ctx<'js>, promise: &JsValue<'js>) {
        self.guest
            .rejections
            .borrow_mut()
            .retain(|known| known.promise.clone().restore(ctx).is_ok_and(|known| known != *promise));
    }
}

fn encode_failure(error: &EncodeError, limits: &Limits) -> ErrorObject {
    match &error.fault {
        Fault::Unserializable(why) => {
            ErrorObject::new(Kind::Unserializable, format!("the value cannot be sent: {why}"))
                .with("path", error.path())
        }
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

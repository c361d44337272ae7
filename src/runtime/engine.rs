//! One QuickJS runtime with one context: the world of one session.
//!
//! Everything here runs inside a turn, on its coroutine. What comes out are wire values and errors, never JavaScript.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Function, Object, Persistent, Promise, Runtime, Value as JsValue};
use serde_json::Value;

use super::guest::{self, Asked, Guest, Holder, Origin, Owner, kit_function};
use super::meter::Verdict;
use super::prelude;
use super::source::{self, Positions, Prepared};
use super::thrown::{self, SourceMap};
use super::value::{EncodeError, Fault};
use super::{slice, stack};
use crate::binding::Registry;
use crate::limits::Limits;
use crate::rpc::{ErrorObject, Kind};

/// Memory that must be free after the limit was hit for the context to be worth keeping.
const MEMORY_RESERVE_BYTES: i64 = 1 << 20;

/// Could not make a context.
#[derive(Debug, thiserror::Error)]
#[error("no room for another JavaScript context: {0}")]
pub(crate) struct EngineError(#[from] rquickjs::Error);

/// The answer to a call, and who gave it.
pub(crate) type CallAnswer = (Result<Value, ErrorObject>, Origin);

/// Takes a call that the script made; an answer that is there at once spares the way round.
pub(crate) type Dispatch = dyn Fn(Asked) -> Option<CallAnswer>;

/// Something whose promise is awaited on behalf of somebody outside.
pub(crate) struct Watched {
    pub(crate) owner: Owner,
    pub(crate) promise: Persistent<Promise<'static>>,
    pub(crate) name: String,
    pub(crate) positions: Positions,
    /// For whom functions in the value are handed out.
    pub(crate) holder: Holder,
}

impl Watched {
    fn map(&self) -> SourceMap<'_> {
        SourceMap { name: &self.name, positions: &self.positions }
    }
}

/// What a look at something watched shows.
pub(crate) enum Look {
    /// It is not over.
    Pending,
    /// It gave a promise, which is watched now in its place.
    Again,
    /// It is over.
    Over(Settled),
}

/// How something watched ended.
pub(crate) struct Settled {
    pub(crate) owner: Owner,
    pub(crate) outcome: Result<Value, ErrorObject>,
    /// The functions in the value that a handler now holds.
    pub(crate) handed: Vec<String>,
}

/// The code of an eval and what belongs to it.
pub(crate) struct Source {
    pub(crate) code: String,
    pub(crate) name: String,
    pub(crate) fresh: bool,
}

/// The world of one session. The fields are dropped in this order.
pub(crate) struct Engine {
    pub(crate) guest: Rc<Guest>,
    context: Context,
    runtime: Runtime,
}

impl Engine {
    /// A fresh world.
    pub(crate) fn new(limits: Arc<Limits>, registry: Arc<Registry>) -> Result<Self, EngineError> {
        let runtime = Runtime::new()?;
        runtime.set_max_stack_size(limits.stack_bytes_max);
        let context = Context::full(&runtime)?;
        let guest = Guest::new(limits, registry);
        context.with(|ctx| -> rquickjs::Result<()> {
            let host = guest::install(&ctx, &guest)?;
            let kit = prelude::install(&ctx, host).inspect_err(|_| {
                tracing::error!(thrown = ?ctx.catch(), "the prelude does not start");
            })?;
            guest.kit.replace(Some(Persistent::save(&ctx, kit)));
            Ok(())
        })?;
        runtime.set_memory_limit(guest.limits.memory_bytes_max);
        let state = Rc::clone(&guest);
        runtime.set_interrupt_handler(Some(Box::new(move || interrupt(&state))));
        let state = Rc::clone(&guest);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
            state.track_rejection(&ctx, promise, reason, handled);
        })));
        Ok(Self { guest, context, runtime })
    }

    /// Enters the context from the stack that we are on.
    pub(crate) fn enter<R>(&self, work: impl FnOnce(&Ctx<'_>) -> R) -> R {
        self.context.with(|ctx| {
            stack::update_top(&ctx);
            work(&ctx)
        })
    }

    /// Tells the script which bindings there are now.
    pub(crate) fn set_bindings<'a>(
        &self,
        ctx: &Ctx<'_>,
        names: impl Iterator<Item = &'a str>,
    ) -> rquickjs::Result<()> {
        let mut flat: Vec<String> = Vec::new();
        for name in names {
            flat.push(name.split('.').count().to_string());
            flat.extend(name.split('.').map(str::to_owned));
            flat.push(name.to_owned());
        }
        self.kit(ctx, "setBindings")?.call((flat,))
    }

    /// Starts an eval; its promise is to be watched.
    pub(crate) fn start_eval(
        &self,
        ctx: &Ctx<'_>,
        owner: Owner,
        source: &Source,
    ) -> Result<Watched, ErrorObject> {
        let dropped = self.kit(ctx, "dropShadows").and_then(|drop| drop.call::<_, ()>(()));
        self.ignore(ctx, dropped);
        let is_binding = |name: &str| self.is_binding(name);
        let options = source::Options { fresh: source.fresh, is_binding: &is_binding };
        let prepared =
            source::prepare(&source.code, &options).map_err(|error| syntax_error(&error, &source.name))?;
        let (promise, positions) = match self.compile(ctx, &prepared, &source.name) {
            Ok(promise) => (promise, prepared.positions),
            Err(thrown) => self.rescue(ctx, thrown, source, &options, &prepared.positions)?,
        };
        Ok(Watched {
            owner,
            promise: Persistent::save(ctx, promise),
            name: source.name.clone(),
            positions,
            holder: Holder::Client,
        })
    }

    fn compile<'js>(
        &self,
        ctx: &Ctx<'js>,
        prepared: &Prepared<'_>,
        name: &str,
    ) -> Result<Promise<'js>, Option<JsValue<'js>>> {
        let mut options = EvalOptions::default();
        options.global = true;
        options.strict = false;
        options.promise = true;
        options.filename = Some(name.to_owned());
        ctx.eval_with_options(prepared.code.as_bytes(), options)
            .map_err(|error| error.is_exception().then(|| ctx.catch()))
    }

    /// QuickJS did not take the code: perhaps it is TypeScript.
    fn rescue<'js>(
        &self,
        ctx: &Ctx<'js>,
        thrown: Option<JsValue<'js>>,
        source: &Source,
        options: &source::Options<'_>,
        positions: &Positions,
    ) -> Result<(Promise<'js>, Positions), ErrorObject> {
        let Some(thrown) = thrown else {
            return Err(ErrorObject::new(
                Kind::SyntaxError,
                "SyntaxError: the code contains a NUL character",
            ));
        };
        let map = SourceMap { name: &source.name, positions };
        let refused = thrown::describe(ctx, &self.guest, thrown, &map);
        if !refused.message.starts_with("SyntaxError") {
            return Err(refused);
        }
        let prepared = match source::rescue(&source.code, options) {
            Ok(Some(prepared)) => prepared,
            Ok(None) => return Err(as_syntax_error(refused)),
            Err(error) => return Err(syntax_error(&error, &source.name)),
        };
        match self.compile(ctx, &prepared, &source.name) {
            Ok(promise) => Ok((promise, prepared.positions)),
            Err(Some(thrown)) => {
                let map = SourceMap { name: &source.name, positions: &prepared.positions };
                Err(as_syntax_error(thrown::describe(ctx, &self.guest, thrown, &map)))
            }
            Err(None) => Err(as_syntax_error(refused)),
        }
    }

    fn is_binding(&self, name: &str) -> bool {
        let starts = |full: &str| full.split('.').next() == Some(name);
        self.guest.registry.iter().any(|binding| starts(&binding.declaration.name))
            || self.guest.client_bindings.borrow().iter().any(|full| starts(full))
    }

    /// Calls a function of the script; what it returns is to be watched.
    pub(crate) fn start_call(
        &self,
        ctx: &Ctx<'_>,
        owner: Owner,
        function: Persistent<Function<'static>>,
        arguments: &[Value],
        (origin, holder): (Origin, Holder),
    ) -> Result<Watched, ErrorObject> {
        let failed = |_| ErrorObject::new(Kind::Internal, "the function is not of this session");
        let function = function.restore(ctx).map_err(failed)?;
        let mut list = rquickjs::function::Args::new(ctx.clone(), arguments.len());
        for (index, argument) in arguments.iter().enumerate() {
            let argument = self.guest.decode(ctx, argument, origin).map_err(|error| {
                ErrorObject::new(Kind::InvalidParams, error.message)
                    .with("path", format!("/{index}{}", error.path))
            })?;
            list.push_arg(argument).map_err(failed)?;
        }
        let positions = Positions::default();
        let name = String::new();
        match function.call_arg::<JsValue<'_>>(list).and_then(|value| self.wrap(ctx, value)) {
            Ok(promise) => {
                Ok(Watched { owner, promise: Persistent::save(ctx, promise), name, positions, holder })
            }
            Err(error) => Err(self.failure(ctx, error, &SourceMap { name: &name, positions: &positions })),
        }
    }

    /// Settles a call that the script waits for.
    pub(crate) fn settle(&self, ctx: &Ctx<'_>, call: u64, (outcome, origin): CallAnswer) {
        let Some(settlers) = self.guest.calls.borrow_mut().take(call) else {
            return;
        };
        let settled = match outcome {
            Ok(value) => match self.guest.decode(ctx, &value, origin) {
                Ok(value) => {
                    settlers.resolve.restore(ctx).and_then(|resolve| resolve.call::<_, ()>((value,)))
                }
                Err(error) => {
                    let error = ErrorObject::new(Kind::InvalidOutput, error.message).with("path", error.path);
                    self.reject(ctx, settlers.reject, &error, origin)
                }
            },
            Err(error) => self.reject(ctx, settlers.reject, &error, origin),
        };
        self.ignore(ctx, settled);
    }

    fn reject(
        &self,
        ctx: &Ctx<'_>,
        reject: Persistent<Function<'static>>,
        error: &ErrorObject,
        origin: Origin,
    ) -> rquickjs::Result<()> {
        let thrown = self.guest.thrown_from(ctx, error, origin)?;
        reject.restore(ctx)?.call((thrown,))
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
    pub(crate) fn run_jobs(&self, ctx: &Ctx<'_>, main: Option<&Promise<'_>>, dispatch: &Dispatch) {
        let is_over = || {
            self.guest.meter.stopped().is_some()
                || main.is_some_and(|promise| promise.state() != PromiseState::Pending)
        };
        while !is_over() {
            if ctx.execute_pending_job() {
                continue;
            }
            let asked = self.guest.calls.borrow_mut().take_asked();
            let mut settled_any = false;
            for asked in asked {
                let call = asked.call;
                if let Some(answer) = dispatch(asked) {
                    self.settle(ctx, call, answer);
                    settled_any = true;
                }
            }
            if !settled_any {
                break;
            }
        }
        // What was asked before the end is still to be sent.
        for asked in self.guest.calls.borrow_mut().take_asked() {
            let call = asked.call;
            if let Some(answer) = dispatch(asked) {
                self.settle(ctx, call, answer);
            }
        }
    }

    /// How a watched promise ended, if it has. A promise inside is awaited in its place.
    pub(crate) fn look_at(&self, ctx: &Ctx<'_>, watched: &mut Watched) -> Look {
        let Ok(promise) = watched.promise.clone().restore(ctx) else {
            return Look::Pending;
        };
        let mut handed = Vec::new();
        let outcome = match promise.result::<Object<'_>>() {
            None => return Look::Pending,
            Some(Ok(result)) => match result.get::<_, JsValue<'_>>("value") {
                Ok(value) if value.is_promise() => match self.wrap(ctx, value) {
                    Ok(promise) => {
                        watched.promise = Persistent::save(ctx, promise);
                        return Look::Again;
                    }
                    Err(error) => Err(self.failure(ctx, error, &watched.map())),
                },
                Ok(value) => self.encode_outcome(ctx, &value, watched.holder, &mut handed),
                Err(error) => Err(self.failure(ctx, error, &watched.map())),
            },
            Some(Err(error)) => {
                self.forget_rejection(ctx, promise.as_value());
                Err(self.failure(ctx, error, &watched.map()))
            }
        };
        Look::Over(Settled { owner: watched.owner, outcome, handed })
    }

    /// A promise of `{value}`, which is what an eval gives.
    fn wrap<'js>(&self, ctx: &Ctx<'js>, value: JsValue<'js>) -> rquickjs::Result<Promise<'js>> {
        self.kit(ctx, "settle")?.call((value,))
    }

    fn encode_outcome<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: &JsValue<'js>,
        holder: Holder,
        handed: &mut Vec<String>,
    ) -> Result<Value, ErrorObject> {
        self.guest
            .encode(ctx, value, holder, handed)
            .map_err(|error| encode_failure(&error, &self.guest.limits))
    }

    /// The error for what was thrown.
    fn failure(&self, ctx: &Ctx<'_>, error: rquickjs::Error, map: &SourceMap<'_>) -> ErrorObject {
        if !error.is_exception() {
            return ErrorObject::new(Kind::Internal, error.to_string());
        }
        let thrown = ctx.catch();
        // With no memory left QuickJS cannot even make the error, and throws null.
        if thrown.is_null() && self.is_out_of_memory(ctx) {
            return ErrorObject::new(Kind::MemoryLimit, "InternalError: out of memory");
        }
        thrown::describe(ctx, &self.guest, thrown, map)
    }

    fn is_out_of_memory(&self, ctx: &Ctx<'_>) -> bool {
        let used = stack::memory_used(ctx);
        let limit = i64::try_from(self.guest.limits.memory_bytes_max).unwrap_or(i64::MAX);
        used > limit - limit / 8
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

    /// Whether jobs are left over.
    pub(crate) fn has_jobs(&self) -> bool {
        self.runtime.is_job_pending()
    }

    /// Frees what it can after the memory limit was hit; `false` when there is still no room to work.
    pub(crate) fn recover_memory(&self, ctx: &Ctx<'_>, declared: &[String]) -> bool {
        let globals: Object<'_> = ctx.globals();
        for name in declared {
            let cleared = globals.set(name.as_str(), JsValue::new_undefined(ctx.clone()));
            self.ignore(ctx, cleared);
        }
        ctx.run_gc();
        let limit = i64::try_from(self.guest.limits.memory_bytes_max).unwrap_or(i64::MAX);
        stack::memory_used(ctx) + MEMORY_RESERVE_BYTES.min(limit / 8) <= limit
    }

    /// Bytes of the JavaScript heap in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.context.with(|ctx| u64::try_from(stack::memory_used(&ctx)).unwrap_or_default())
    }

    fn kit<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Function<'js>> {
        kit_function(&self.guest.kit(ctx)?, name)
    }

    fn ignore<T>(&self, ctx: &Ctx<'_>, result: rquickjs::Result<T>) {
        if let Err(error) = result
            && error.is_exception()
        {
            ctx.catch();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.guest.clear();
    }
}

/// QuickJS asks every so often whether to go on.
fn interrupt(guest: &Guest) -> bool {
    match guest.meter.poll(Instant::now()) {
        Verdict::Continue => false,
        Verdict::Stop => true,
        Verdict::Suspend => {
            slice::suspend();
            guest.meter.stopped().is_some()
        }
    }
}

fn syntax_error(error: &source::SourceError, name: &str) -> ErrorObject {
    ErrorObject::new(Kind::SyntaxError, format!("SyntaxError: {}", error.message))
        .with("stack", format!("    at {name}:{}:{}", error.line, error.column))
}

fn as_syntax_error(error: ErrorObject) -> ErrorObject {
    error.with("kind", Kind::SyntaxError.name())
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

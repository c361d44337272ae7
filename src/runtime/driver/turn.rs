//! One turn of JavaScript: what it does, and what is there when it is over.

use std::io;
use std::rc::Rc;

use rquickjs::{Ctx, Promise};

use super::super::engine::{Engine, Look, Started};
use super::super::slice;
use super::super::source;
use crate::rpc::ErrorObject;
use crate::schema::SchemaBudget;
use crate::session::{AwaitedPromise, ChargedTo, Settled, Turn, Work};

/// Stack for native code beside the script's own: conversions, regular expressions, handlers that are ready.
const NATIVE_STACK_BYTES: usize = 1536 << 10;

/// What a turn brought.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) settled: Vec<Settled>,
    /// Where the script was stopped, if it was.
    pub(super) stopped_at: Option<String>,
    /// After memory was to be freed: whether there is room to work again.
    pub(super) recovered: Option<bool>,
}

/// A turn that may be suspended and resumed until it is over.
pub(super) fn begin(engine: &Rc<Engine>, turn: Turn) -> io::Result<slice::Turn<Outcome>> {
    let engine = Rc::clone(engine);
    let stack_bytes = engine.guest.limits.stack_bytes_max + NATIVE_STACK_BYTES;
    slice::Turn::new(stack_bytes, move || engine.enter(|ctx| run(&engine, ctx, turn)))
}

fn run(engine: &Engine, ctx: &Ctx<'_>, turn: Turn) -> Outcome {
    let Turn { charged_to, work, .. } = turn;
    let mut outcome = Outcome::default();
    let started = match work {
        Work::Eval(source) => Some(engine.start_eval(ctx, charged_to, &source)),
        Work::Call { function, arguments, source, holder } => {
            Some(engine.start_call(ctx, charged_to, function, &arguments, (source, holder)))
        }
        Work::Settle(settlements) => {
            settlements.into_iter().for_each(|settlement| engine.settle(ctx, settlement));
            None
        }
        Work::Timer(timer) => {
            engine.fire_timer(ctx, timer);
            None
        }
        Work::Bindings => {
            set_bindings(engine, ctx);
            None
        }
        Work::Recover(stopped) => {
            let declared = stopped.map(|source| source::declared_names(&source.code)).unwrap_or_default();
            outcome.recovered = Some(engine.recover_memory(ctx, &declared));
            None
        }
        Work::Jobs => None,
    };
    match started {
        Some(Ok(Started::Waiting(awaited))) => engine.guest.machine_mut().state.promises.push(awaited),
        Some(Ok(Started::Over(over))) => outcome.settled.push(over),
        // A script that was stopped did not fail: the session knows why it ended.
        Some(Err(error)) if engine.guest.meter.stopped().is_none() => {
            outcome.settled.push(Settled { charged_to, outcome: Err(error), exported: Vec::new() });
        }
        Some(Err(error)) => outcome.stopped_at = stack_in(&error),
        None => {}
    }
    let stopped_at = pump(engine, ctx, &mut outcome.settled);
    outcome.stopped_at = outcome.stopped_at.or(stopped_at);
    // What an eval leaves unhandled at its end may still be handled by the jobs it leaves: that is reported later.
    let is_stopped = engine.guest.meter.stopped().is_some();
    if !is_stopped && !has_eval(&outcome.settled) {
        engine.report_rejections(ctx);
    }
    outcome
}

fn stack_in(error: &ErrorObject) -> Option<String> {
    let stack = error.data.as_ref()?.get("stack")?.as_str()?;
    (!stack.is_empty()).then(|| stack.to_owned())
}

fn set_bindings(engine: &Engine, ctx: &Ctx<'_>) {
    let (names, schema_bytes) = {
        let machine = engine.guest.machine();
        let client = machine.state.client.as_ref();
        (machine.visible_names(), client.map_or(0, |client| client.schema_bytes))
    };
    let left = engine.guest.limits.schema_bytes_max.saturating_sub(schema_bytes);
    engine.guest.schema_budget.replace(SchemaBudget::new(left));
    if engine.set_bindings(ctx, names.iter().map(String::as_str)).is_err() {
        tracing::warn!(thrown = ?ctx.catch(), "the script's bindings could not be set");
    }
}

/// Whether the eval is among what is over.
fn has_eval(settled: &[Settled]) -> bool {
    settled.iter().any(|settled| matches!(settled.charged_to, ChargedTo::Eval(_)))
}

/// Runs jobs and looks at what is awaited, until neither brings anything new. The jobs that an eval leaves at its end run
/// after its answer. Returns where the script was stopped, if a job was.
fn pump(engine: &Engine, ctx: &Ctx<'_>, settled: &mut Vec<Settled>) -> Option<String> {
    let roots = &engine.guest.roots;
    let mut stopped_at = None;
    loop {
        // Taken out while JavaScript runs: no borrow may be held across a suspension.
        let mut promises = std::mem::take(&mut engine.guest.machine_mut().state.promises);
        if !has_eval(settled) {
            let main = promises.iter().find(|awaited| matches!(awaited.charged_to, ChargedTo::Eval(_)));
            let main = main.and_then(|main| roots.get::<Promise<'_>>(ctx, main.promise).ok());
            stopped_at = engine.run_jobs(ctx, main.as_ref());
        }
        let mut again = false;
        if engine.guest.meter.stopped().is_none() {
            promises.retain_mut(|awaited: &mut AwaitedPromise| match engine.look_at(ctx, awaited) {
                Look::Pending => true,
                Look::Again => {
                    again = true;
                    true
                }
                Look::Over(over) => {
                    roots.release(awaited.promise);
                    settled.push(over);
                    false
                }
            });
        }
        engine.guest.machine_mut().state.promises.append(&mut promises);
        if !again {
            return stopped_at;
        }
    }
}

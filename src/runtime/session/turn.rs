//! One turn of JavaScript: what it does, and what is there when it is over.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rquickjs::Promise;

use super::super::engine::{Arguments, Engine, Look, Settled, Source, Started, Watched};
use super::super::guest::{CallAnswer, Callable, ChargedTo, RefHolder, Root, ValueSource};
use super::super::slice::Turn;
use crate::budget::Charge;
use crate::rpc::{ErrorObject, Kind};

/// Stack for native code beside the script's own: conversions, regular expressions, handlers that answer at once.
const NATIVE_STACK_BYTES: usize = 1536 << 10;

/// What a turn starts with.
pub(crate) enum Action {
    /// Run the code of an eval.
    Eval { owner: ChargedTo, source: Rc<Source> },
    /// Call a function of the script.
    Call { owner: ChargedTo, function: Root, arguments: Arguments, source: ValueSource, holder: RefHolder },
    /// Settle calls that the script waits for; their client is charged until then.
    Settle(Vec<(u64, CallAnswer, Charge)>),
    /// Fire a timer.
    Timer(u64),
    /// Go on with jobs that are left over.
    Jobs,
    /// Tell the script which bindings there are.
    Bindings(Vec<String>),
    /// Let functions go that nobody outside holds any more.
    Forget(Vec<Callable>),
    /// Make room after the memory limit; the flag is set when there is none.
    Recover { declared: Vec<String>, is_lost: Rc<Cell<bool>> },
}

/// What is awaited on behalf of somebody outside, the running eval among them.
pub(crate) type Watches = Rc<RefCell<Vec<Watched>>>;

/// A turn that may be suspended and resumed until it gives what was settled in it.
pub(crate) fn begin(
    engine: &Rc<Engine>,
    watches: &Watches,
    action: Action,
) -> Result<Turn<Vec<Settled>>, ErrorObject> {
    let (engine, watches) = (Rc::clone(engine), Rc::clone(watches));
    let stack_bytes = engine.guest.limits.stack_bytes_max + NATIVE_STACK_BYTES;
    Turn::new(stack_bytes, move || run(&engine, &watches, action))
        .map_err(|error| ErrorObject::new(Kind::Busy, format!("no stack for the script: {error}")))
}

fn run(engine: &Engine, watches: &Watches, action: Action) -> Vec<Settled> {
    engine.enter(|ctx| {
        let mut settled = Vec::new();
        let started = match action {
            Action::Eval { owner, source } => Some((owner, engine.start_eval(ctx, owner, &source))),
            Action::Call { owner, function, arguments, source, holder } => {
                Some((owner, engine.start_call(ctx, owner, &function, &arguments, (source, holder))))
            }
            Action::Settle(answers) => {
                for (call, answer, _charge) in answers {
                    engine.settle(ctx, call, answer);
                }
                None
            }
            Action::Timer(timer) => {
                engine.fire_timer(ctx, timer);
                None
            }
            Action::Bindings(names) => {
                if engine.set_bindings(ctx, names.iter().map(String::as_str)).is_err() {
                    tracing::warn!(thrown = ?ctx.catch(), "the script's bindings could not be set");
                }
                None
            }
            Action::Recover { declared, is_lost } => {
                is_lost.set(!engine.recover_memory(ctx, &declared));
                None
            }
            Action::Forget(functions) => {
                drop(functions);
                None
            }
            Action::Jobs => None,
        };
        match started {
            Some((_, Ok(Started::Waiting(watched)))) => watches.borrow_mut().push(watched),
            Some((_, Ok(Started::Over(over)))) => settled.push(over),
            // A script that was stopped did not fail: the session knows why it ended.
            Some((owner, Err(error))) if engine.guest.meter.stopped().is_none() => {
                settled.push(Settled { owner, outcome: Err(error), exported: Vec::new() })
            }
            Some((_, Err(_))) | None => {}
        }
        pump(engine, ctx, watches, &mut settled);
        // What an eval leaves unhandled at its end may still be handled by the jobs it leaves: that is seen later.
        let is_stopped = engine.guest.meter.stopped().is_some();
        if !is_stopped && !has_eval(&settled) {
            engine.report_rejections(ctx);
        }
        settled
    })
}

/// Whether the eval is among what is over.
fn has_eval(settled: &[Settled]) -> bool {
    settled.iter().any(|settled| matches!(settled.owner, ChargedTo::Eval(_)))
}

/// Runs jobs and looks at what is awaited, until neither gives anything new. The jobs that an eval leaves at its end run
/// after its answer.
fn pump(engine: &Engine, ctx: &rquickjs::Ctx<'_>, watches: &Watches, settled: &mut Vec<Settled>) {
    loop {
        // Taken out while JavaScript runs: no borrow may be held across a suspension.
        let mut watched = watches.take();
        let main = watched.iter().find(|watched| matches!(watched.owner, ChargedTo::Eval(_)));
        let main = main.and_then(|main| main.promise.get::<Promise<'_>>(ctx).ok());
        if !has_eval(settled) {
            engine.run_jobs(ctx, main.as_ref());
        }
        let mut again = false;
        if engine.guest.meter.stopped().is_none() {
            watched.retain_mut(|watched| match engine.look_at(ctx, watched) {
                Look::Pending => true,
                Look::Again => {
                    again = true;
                    true
                }
                Look::Over(over) => {
                    settled.push(over);
                    false
                }
            });
        }
        watches.borrow_mut().append(&mut watched);
        if !again {
            return;
        }
    }
}

/// CPU time for what runs when no eval does, renewed every minute.
#[derive(Debug)]
pub(crate) struct Background {
    window_start: std::time::Instant,
    spent: Duration,
    per_minute: Duration,
}

impl Background {
    /// A full budget.
    pub(crate) fn new(now: std::time::Instant, per_minute: Duration) -> Self {
        Self { window_start: now, spent: Duration::ZERO, per_minute }
    }

    /// What is left of it now.
    pub(crate) fn left(&mut self, now: std::time::Instant) -> Duration {
        if now.saturating_duration_since(self.window_start) >= Duration::from_secs(60) {
            self.window_start = now;
            self.spent = Duration::ZERO;
        }
        self.per_minute.saturating_sub(self.spent)
    }

    /// Counts what was used.
    pub(crate) fn charge(&mut self, used: Duration) {
        self.spent += used;
    }

    /// When it is renewed.
    pub(crate) fn renewed_at(&self) -> std::time::Instant {
        self.window_start + Duration::from_secs(60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_background_budget_is_renewed_after_a_minute() {
        let start = Instant::now();
        let mut background = Background::new(start, Duration::from_secs(1));
        background.charge(Duration::from_millis(1_500));
        assert_eq!(background.left(start + Duration::from_secs(59)), Duration::ZERO);
        assert_eq!(background.left(start + Duration::from_secs(60)), Duration::from_secs(1));
    }
}

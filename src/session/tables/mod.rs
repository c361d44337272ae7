//! The tables of a session: each owns one subject, knows its limits, and neither sends nor waits.

mod background;
mod client_calls;
mod clock;
mod console;
mod evals;
mod handler_calls;
mod invocations;
mod keys;
mod outbox;
mod references;
mod script_calls;
mod timers;

pub use background::Background;
pub use client_calls::{ClientCall, ClientCalls, Waiter};
pub use clock::WallClock;
pub use console::{Console, ConsoleLine};
pub use evals::{EvalQueue, EvalSource, QueuedEval, RunningEval};
pub use handler_calls::{HandlerCalls, HandlerWork};
pub use invocations::{Invocation, Invocations, InvokedBy};
pub use keys::{KeyedEval, KeyedOutcomes};
pub use outbox::{Outbox, OutboxItem};
pub use references::{Callable, Freed, References, TooManyRefs};
pub use script_calls::{Rejection, ScriptCall, ScriptCalls};
pub use timers::Timers;

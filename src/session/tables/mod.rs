//! The tables of a session: each owns one subject, knows its limits, and neither sends nor waits.

mod background;
mod checkpoints;
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
mod source_maps;
mod timers;

pub(crate) use background::Background;
pub(crate) use checkpoints::{Checkpoint, Checkpoints, ContextState, LABEL_BYTES_MAX};
pub(crate) use client_calls::{ClientCall, ClientCalls, Waiter};
pub(crate) use clock::WallClock;
pub(crate) use console::{Console, ConsoleLine};
pub(crate) use evals::{EvalQueue, EvalSource, QueuedEval, RunningEval};
pub(crate) use handler_calls::{HandlerCalls, HandlerWork};
pub(crate) use invocations::{Invocation, Invocations, InvokedBy};
pub(crate) use keys::{KeyedEval, KeyedOutcomes};
pub(crate) use outbox::{Outbox, OutboxItem};
pub(crate) use references::{Callable, Freed, References, TooManyRefs};
pub(crate) use script_calls::{Rejection, ScriptCall, ScriptCalls};
pub(crate) use source_maps::SourceMaps;
pub(crate) use timers::Timers;

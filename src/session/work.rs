//! What needs an empty JavaScript stack, and what a turn reports when it is over.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::tables::EvalSource;
use super::{ChargedTo, Positions, RefHolder, RootId, Stop, ValueSource};
use crate::protocol::methods::RawPayload;
use crate::rpc::ErrorObject;

/// Something that waits for an empty JavaScript stack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Who pays for it.
    pub charged_to: ChargedTo,
    /// How many invokes it is inside of.
    pub depth: u32,
    /// What it begins with.
    pub work: Work,
}

/// What a turn begins with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Run the code of an eval.
    Eval(Arc<EvalSource>),
    /// Call a function of the script.
    Call {
        /// The function.
        function: RootId,
        /// With what.
        arguments: Arguments,
        /// Whose functions are in the arguments.
        source: ValueSource,
        /// For whom functions in the result are exported.
        holder: RefHolder,
    },
    /// Settle calls that the script waits for.
    Settle(Vec<Settlement>),
    /// Fire a timer.
    Timer(u64),
    /// Go on with jobs that are left over.
    Jobs,
    /// Tell the script which bindings there are.
    Bindings,
    /// Free what can be freed after a memory limit; what this eval declared is cleared first.
    Recover(Option<Arc<EvalSource>>),
}

/// The answer to a call that the script waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Settlement {
    /// The number of the script's call.
    pub call: u64,
    /// The answer.
    pub outcome: Result<CallValue, ErrorObject>,
    /// Whose functions are in it.
    pub source: ValueSource,
    /// The host's number for the bytes of the answer; 0 for none.
    pub charge: u64,
}

/// What a call returned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum CallValue {
    /// From a handler.
    Tree(Value),
    /// From the client, as it was sent: it becomes a value of the script without a tree in between.
    Text(Box<RawValue>),
}

/// What a function of the script is called with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Arguments {
    /// By a handler.
    Trees(Vec<Value>),
    /// By the client, as it was sent.
    Text(RawPayload),
}

/// A promise that is awaited for an eval or an invocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AwaitedPromise {
    /// For whom it is awaited.
    pub charged_to: ChargedTo,
    /// The promise.
    pub promise: RootId,
    /// The file name of its code.
    pub name: String,
    /// Where places of the compiled code were in the code as sent.
    pub positions: Positions,
    /// For whom functions in the value are exported.
    pub holder: RefHolder,
    /// Whether the promises inside of the value have been awaited.
    pub is_unwrapped: bool,
}

/// How an eval or an invocation ended by itself.
#[derive(Debug)]
pub(crate) struct Settled {
    /// Which.
    pub charged_to: ChargedTo,
    /// Its value or its error.
    pub outcome: Result<Encoded, ErrorObject>,
    /// The functions in the value, exported to its receiver.
    pub exported: Vec<u64>,
}

/// A value of the script on its way out.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Encoded {
    /// For a handler.
    Tree(Value),
    /// For the client: ready to be written.
    Text(Box<RawValue>),
}

impl Encoded {
    /// As a tree.
    pub(crate) fn into_tree(self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Tree(value) => Ok(value),
            Self::Text(text) => serde_json::from_str(text.get()),
        }
    }
}

/// What a turn brought.
#[derive(Debug, Default)]
pub(crate) struct TurnReport {
    /// What ended in it.
    pub settled: Vec<Settled>,
    /// Why the script was stopped, if it was.
    pub stopped: Option<Stop>,
    /// Where the script was when it was stopped: its stack, with the places of the code as sent.
    pub stopped_at: Option<String>,
    /// CPU time of the eval or invocation so far, this turn included.
    pub cpu: Duration,
    /// After [`Work::Recover`]: whether there is room to work again.
    pub recovered: Option<bool>,
}

/// What the machine has to know of the context, as it is now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ContextFacts {
    /// Whether promise jobs are left over.
    pub has_jobs: bool,
    /// Bytes of the JavaScript heap in use.
    pub memory_bytes: u64,
    /// The limit of all sessions together, if that refused an allocation.
    pub refused_by_total: Option<usize>,
    /// Whether the context keeps more than the limit of all sessions allows.
    pub is_overdrawn: bool,
}

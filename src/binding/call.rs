//! What a handler knows of the call that it serves, and how it calls back.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{BindingError, Callbacks, CancelSignal, Handler, Principal};
use crate::observe::audit::Audit;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::{Payload, Target};
use crate::protocol::references::Exports;

/// Functions of handlers that one session keeps. What the script and the client may hold is limited well below; only
/// handlers that make functions and never send them get here, and functions beyond it are unknown when they are called.
const HOST_FUNCTIONS_MAX: usize = 1 << 20;

/// The session that a call belongs to.
#[derive(Debug)]
pub struct SessionScope {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub principal: Arc<Principal>,
    /// Records its calls.
    pub audit: Audit,
}

/// A function that a handler exports to a script or a client.
pub(crate) type NativeFunction = Arc<dyn Handler>;

/// The functions that handlers exported, by the number in [`FnRef::Handler`].
#[derive(Clone)]
pub(crate) struct HostFunctions(Arc<Mutex<Exports<NativeFunction>>>);

impl HostFunctions {
    fn new(functions_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Exports::new(functions_max))))
    }

    /// Numbers begin after this one from now on: a session that was read from its image may hold earlier ones.
    pub(crate) fn number_from(&self, last_number: u64) {
        self.0.lock().skip_ids_below(last_number + 1);
    }

    /// The function of that number.
    pub(crate) fn get(&self, number: u64) -> Option<NativeFunction> {
        self.0.lock().get(number).cloned()
    }

    /// Ends a function: neither the script nor the client holds it any more.
    pub(crate) fn remove(&self, number: u64) {
        // Dropped after the lock is released: what it captured may itself hold functions.
        let removed = self.0.lock().remove(number);
        drop(removed);
    }

    /// A table of its own with those that `is_kept` accepts, for the fork of a session. Numbers go on from here.
    pub(crate) fn fork(&self, is_kept: impl Fn(u64) -> bool) -> Self {
        let mut functions = self.0.lock().clone();
        let dropped: Vec<u64> = functions.iter().map(|(number, _)| number).filter(|n| !is_kept(*n)).collect();
        dropped.into_iter().for_each(|number| drop(functions.remove(number)));
        Self(Arc::new(Mutex::new(functions)))
    }

    /// The function of that number, if it was [sent](Self::count_sent).
    pub(crate) fn get_sent(&self, number: u64) -> Option<NativeFunction> {
        self.0.lock().get_sent(number).cloned()
    }

    /// Counts one sending to a receiver that releases what it gets one by one.
    pub(crate) fn count_sent(&self, number: u64) {
        self.0.lock().count_sent(number);
    }

    /// Such a receiver releases `count` sendings.
    pub(crate) fn release(&self, number: u64, count: u64) {
        let released = self.0.lock().release(number, count);
        drop(released);
    }

    /// Makes a value of a function, for an output or an argument.
    pub(crate) fn export(&self, name: &str, function: NativeFunction) -> Value {
        let number = self.0.lock().add(function).unwrap_or_else(|| {
            tracing::warn!(name, "too many functions of handlers in one session");
            UNKNOWN_NUMBER
        });
        json!({"$fn": FnRef::Handler(number).to_string(), "name": name})
    }
}

/// Numbers of functions start at 1.
const UNKNOWN_NUMBER: u64 = 0;

impl Default for HostFunctions {
    fn default() -> Self {
        Self::new(HOST_FUNCTIONS_MAX)
    }
}

impl std::fmt::Debug for HostFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFunctions").field("len", &self.0.lock().len()).finish_non_exhaustive()
    }
}

/// One call of a binding, as its handler sees it.
///
/// ```
/// use scomp::binding::{BindingError, Call};
/// use scomp::client::Client;
/// use scomp::server::Server;
/// use serde_json::{Value, json};
///
/// /// Calls the function that the script passes, once for each number up to three.
/// async fn count(input: Value, call: Call) -> Result<Value, BindingError> {
///     let visit = call.function(&input["visit"]).ok_or_else(|| BindingError::new("visit is not a function"))?;
///     let mut seen = Vec::new();
///     for number in 1..=3 {
///         seen.push(visit.call(vec![json!(number)], call.depth).await?);
///     }
///     Ok(json!(seen))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().bind("count", "Counts to three.", count).build()?;
/// let client = Client::builder().connect_transport(server.connect()).await?;
/// let output = client.eval("await count({ visit: n => n * n })").await?;
/// assert_eq!(output.value, json!([1, 4, 9]));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Call {
    /// Who calls.
    pub session: Arc<SessionScope>,
    /// When its answer comes too late.
    pub deadline: Instant,
    /// Fires when the answer is not awaited any more.
    pub cancel: CancelSignal,
    /// How many invokes it is inside of.
    pub depth: u32,
    /// The JSON-RPC id of the eval that it is made for.
    pub eval_id: Option<Value>,
    /// The script's call that it serves, by the session's number; `None` when a client or a handler calls.
    pub script_call: Option<u64>,
    /// The way back.
    pub(crate) link: Callbacks,
    /// Where functions are put that the handler gives away.
    pub(crate) host_functions: HostFunctions,
    /// The functions in the input; those the handler does not keep are given back when the call ends.
    pub functions: Vec<FunctionRef>,
}

impl Call {
    /// Calls a binding of the client, or another one of the server.
    pub async fn invoke(&self, binding: &str, input: Value) -> Result<Value, BindingError> {
        let (target, payload) = (Target::Binding(binding.to_owned()), Payload::Input(input));
        self.link.request(target, payload, self.depth + 1, self.script_call).await
    }

    /// The function that a part of the input is, to be called or kept.
    pub fn function(&self, value: &Value) -> Option<FunctionRef> {
        let id = FnRef::parse_or_unknown(fn_values::id_of(value)?);
        self.functions.iter().find(|function| function.0.id == id).cloned()
    }

    /// Makes a function that the script (or the client) can call; put the result into the output or an argument.
    pub fn export(&self, name: &str, function: NativeFunction) -> Value {
        self.host_functions.export(name, function)
    }
}

/// A function of a script or of a client, held by a handler. It is released when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct FunctionRef(Arc<FunctionHandle>);

#[derive(Debug)]
struct FunctionHandle {
    id: FnRef,
    link: Callbacks,
}

impl FunctionRef {
    /// Takes over one receipt of the function `id`.
    pub(crate) fn new(id: FnRef, link: Callbacks) -> Self {
        Self(Arc::new(FunctionHandle { id, link }))
    }

    /// Its name, which stands as text in the values that contain it.
    pub(crate) fn id(&self) -> &FnRef {
        &self.0.id
    }

    /// Whether its session has ended.
    pub fn is_gone(&self) -> bool {
        self.0.link.is_gone()
    }

    /// Waits for the end of its session.
    pub async fn gone(&self) {
        self.0.link.gone().await;
    }

    /// Calls it. `depth` is that of the call it is made for, 0 when it is made for none.
    pub async fn call(&self, arguments: Vec<Value>, depth: u32) -> Result<Value, BindingError> {
        let target = Target::Reference(self.0.id.to_string());
        self.0.link.request(target, Payload::Args(arguments), depth + 1, None).await
    }
}

impl Drop for FunctionHandle {
    fn drop(&mut self) {
        self.link.release(self.id.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::handler;
    use super::*;

    #[test]
    fn host_function_past_the_limit_is_unknown() {
        let functions = HostFunctions::new(1);
        let function = || handler(|_, _| async { Ok(Value::Null) });
        assert_eq!(functions.export("a", function()), json!({"$fn": "h1", "name": "a"}));
        assert_eq!(functions.export("b", function()), json!({"$fn": "h0", "name": "b"}));
        assert!(functions.get(0).is_none());
        functions.remove(1);
        assert_eq!(functions.export("c", function())["$fn"], "h2");
    }

    #[test]
    fn function_ref_is_released_under_its_name() {
        let (link, receiver) = Callbacks::channel(1);
        let client = FnRef::Client { connection: 1, id: "f7".to_owned() };
        let function = FunctionRef::new(client.clone(), link);
        assert_eq!(function.id().to_string(), "1:f7");
        drop(function);
        assert_eq!(receiver.take_dropped(), [client]);
    }
}

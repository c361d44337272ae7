//! What a handler knows of the call that it serves, and how it calls back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{BindingError, Handler, Principal};
use crate::observe::audit::Audit;
use crate::protocol::methods::{Payload, Target};
use crate::rpc::{ErrorObject, Kind};

/// A handler's request to the session that called it.
#[derive(Debug)]
pub struct CallbackRequest {
    /// A binding of the client or the server, or a function.
    pub target: Target,
    /// With what.
    pub payload: Payload,
    /// How many invokes it is inside of.
    pub depth: u32,
    /// The script's call on whose behalf it is made, by the session's number.
    pub script_call: Option<u64>,
    /// Where the answer goes.
    pub reply_tx: oneshot::Sender<Result<Value, ErrorObject>>,
}

/// The way from handlers back to their session.
#[derive(Debug, Clone)]
pub struct Callbacks {
    /// Carries the requests.
    pub requests_tx: mpsc::Sender<CallbackRequest>,
    /// Functions that no handler holds any more; the session looks here between turns.
    pub dropped_refs: DroppedRefs,
}

/// References given back, until the session looks.
#[derive(Debug, Clone, Default)]
pub struct DroppedRefs(Arc<Mutex<Vec<String>>>);

impl DroppedRefs {
    /// Takes all that were given back.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

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

/// A function that a handler passes to a script or a client.
pub type NativeFunction = Arc<dyn Handler>;

/// The functions that handlers gave away, by number. Numbers are never reused.
#[derive(Clone, Default)]
pub struct HostFunctions {
    next: Arc<AtomicU64>,
    live: Arc<Mutex<HashMap<u64, NativeFunction>>>,
}

impl HostFunctions {
    /// The function of that number.
    pub fn get(&self, number: u64) -> Option<NativeFunction> {
        self.live.lock().get(&number).cloned()
    }

    /// Drops a function that is not held any more.
    pub fn remove(&self, number: u64) {
        self.live.lock().remove(&number);
    }

    /// Makes a function a value that can stand in an output or an argument.
    pub fn provide(&self, name: &str, function: NativeFunction) -> Value {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.live.lock().insert(number, function);
        json!({"$fn": format!("native:{number}"), "name": name})
    }
}

impl std::fmt::Debug for HostFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Natives").field("live", &self.live.lock().len()).finish_non_exhaustive()
    }
}

/// One call of a binding, as its handler sees it.
#[derive(Debug)]
pub struct Call {
    /// Who calls.
    pub session: Arc<SessionScope>,
    /// When its answer comes too late.
    pub deadline: Instant,
    /// Fires when the answer is not awaited any more.
    pub cancel: CancellationToken,
    /// How many invokes it is inside of.
    pub depth: u32,
    /// The JSON-RPC id of the eval that it is made for.
    pub eval_id: Option<Value>,
    /// The script's call that it serves, by the session's number; `None` when a client or a handler calls.
    pub script_call: Option<u64>,
    /// The way back.
    pub link: Callbacks,
    /// Where functions are put that the handler gives away.
    pub host_functions: HostFunctions,
    /// The functions in the input; those the handler does not keep are given back when the call ends.
    pub functions: Vec<FunctionRef>,
}

impl Call {
    /// Calls a binding of the client, or another one of the server.
    pub async fn invoke(&self, binding: &str, input: Value) -> Result<Value, BindingError> {
        let (target, payload) = (Target::Binding(binding.to_owned()), Payload::Input(input));
        self.link.request(target, payload, self.depth + 1, self.script_call).await
    }

    /// The function at a place of the input, to be called or kept.
    pub fn function(&self, place: &Value) -> Option<FunctionRef> {
        let id = place.get("$fn")?.as_str()?;
        self.functions.iter().find(|function| function.0.id == id).cloned()
    }

    /// Makes a function that the script (or the client) can call; put the result into the output or an argument.
    pub fn provide(&self, name: &str, function: NativeFunction) -> Value {
        self.host_functions.provide(name, function)
    }
}

impl Callbacks {
    async fn request(
        &self,
        target: Target,
        payload: Payload,
        depth: u32,
        script_call: Option<u64>,
    ) -> Result<Value, BindingError> {
        let gone = || BindingError::of_kind(Kind::PeerGone, "the session is gone");
        let (reply_tx, reply_rx) = oneshot::channel();
        let request = CallbackRequest { target, payload, depth, script_call, reply_tx };
        self.requests_tx.send(request).await.map_err(|_| gone())?;
        reply_rx.await.map_err(|_| gone())?.map_err(BindingError::from)
    }
}

/// A function of a script or of a client, held by a handler. When the last clone goes, it is given back.
#[derive(Debug, Clone)]
pub struct FunctionRef(Arc<Held>);

#[derive(Debug)]
struct Held {
    id: String,
    link: Callbacks,
}

impl FunctionRef {
    /// Takes over one receipt of the function `id`.
    pub fn new(id: String, link: Callbacks) -> Self {
        Self(Arc::new(Held { id, link }))
    }

    /// What it is called in the values that it stands in.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Whether its session has ended.
    pub fn is_gone(&self) -> bool {
        self.0.link.requests_tx.is_closed()
    }

    /// Waits for the end of its session.
    pub async fn gone(&self) {
        self.0.link.requests_tx.closed().await;
    }

    /// Calls it. `depth` is that of the call it is made for, 0 when it is made for none.
    pub async fn call(&self, arguments: Vec<Value>, depth: u32) -> Result<Value, BindingError> {
        let target = Target::Reference(self.0.id.clone());
        self.0.link.request(target, Payload::Args(arguments), depth + 1, None).await
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.link.dropped_refs.0.lock().push(std::mem::take(&mut self.id));
    }
}

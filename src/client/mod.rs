//! The Rust client: connects to an eval server, offers it bindings, and runs code there.
//!
//! A [`Client`] is a cheap handle; one task behind it owns the connection. [`Client::close`] ends the session and the
//! connection, and so does the last handle that is dropped; [`Client::leave`] keeps the session for a later resume.
//!
//! A handler's future is dropped when the server does not wait for its answer any more: the eval was cancelled, the
//! call took too long, the session was closed, or the connection broke.
//!
//! ```no_run
//! # async fn run() -> Result<(), scomp::client::ClientError> {
//! use scomp::client::Client;
//!
//! let client = Client::builder()
//!     .bind("add", "Adds two numbers.", |(a, b): (f64, f64)| async move { Ok(a + b) })
//!     .connect("ws://127.0.0.1:7400")
//!     .await?;
//! assert_eq!(client.eval("await add([1, 2])").await?.value, 3.0);
//! # Ok(()) }
//! ```

mod builder;
mod command;
mod connection;
mod error;
mod eval;
mod function;
mod handler;
mod handshake;
mod machine;
mod reconnect;
mod references;
mod task;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::builder::Settings;
use self::command::{Call, Command, Waiter};
use self::task::{ClientTask, Connected, Live};
use crate::protocol::methods::{InvokeParams, Payload, Target};
use crate::transport::close_code;

pub use self::builder::Builder;
pub use self::error::{CallError, ClientError};
pub use self::eval::{ConsoleLine, EvalOutput, EvalStats, Pending};
pub use self::function::RemoteFunction;
pub use self::handler::{CallContext, Outcome};
pub use self::handshake::Session;
pub use self::reconnect::{Reconnect, Resumed};
pub use crate::protocol::methods::{EvalParams, ResumeParams};

/// A connection to an eval server.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    commands_tx: mpsc::Sender<Command>,
    connected_rx: watch::Receiver<Arc<Connected>>,
    closed_rx: watch::Receiver<Option<(u16, String)>>,
    closing: CancellationToken,
    keeps_session: Arc<AtomicBool>,
    eval_places: Arc<Semaphore>,
    call_places: Arc<Semaphore>,
    _closes_when_dropped: DropGuard,
}

impl Client {
    /// Connects to `ws://…` or `wss://…` with no bindings and no token.
    pub async fn connect(url: impl Into<String>) -> Result<Self, ClientError> {
        Self::builder().connect(url).await
    }

    /// A client with bindings, a token, a session to resume …
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn start(settings: Arc<Settings>, live: Live, connected: Connected) -> Self {
        let (commands_tx, commands_rx) = mpsc::channel(command::COMMANDS_QUEUED_MAX);
        let (connected_tx, connected_rx) = watch::channel(Arc::new(connected));
        let (closed_tx, closed_rx) = watch::channel(None);
        let closing = CancellationToken::new();
        let keeps_session = Arc::new(AtomicBool::new(false));
        let inner = Arc::new(Inner {
            commands_tx,
            connected_rx,
            closed_rx,
            closing: closing.clone(),
            keeps_session: Arc::clone(&keeps_session),
            eval_places: Arc::new(Semaphore::new(command::EVALS_OPEN_MAX)),
            call_places: Arc::new(Semaphore::new(command::CALLS_OPEN_MAX)),
            _closes_when_dropped: closing.clone().drop_guard(),
        });
        let client = Arc::downgrade(&inner);
        let task =
            ClientTask { settings, commands_rx, closing, keeps_session, client, connected_tx, closed_tx };
        tokio::spawn(task.run(live));
        Self(inner)
    }

    /// Runs code in the session.
    pub async fn eval(&self, code: impl Into<String>) -> Result<EvalOutput, ClientError> {
        self.eval_with(EvalParams { code: code.into(), ..EvalParams::default() }).await
    }

    /// Runs code with a time limit, a name, a key …
    pub async fn eval_with(&self, params: EvalParams) -> Result<EvalOutput, ClientError> {
        self.start_eval(params).await?.await
    }

    /// Sends code and returns once it has an id, by which it can be cancelled.
    pub async fn start_eval(&self, params: EvalParams) -> Result<Pending, ClientError> {
        let (answer_tx, answer_rx) = oneshot::channel();
        let (id_tx, mut id_rx) = watch::channel(0);
        let place = self.place(&self.0.eval_places).await?;
        let waiter = Waiter::new(answer_tx, Some(id_tx), Some(place));
        self.send(Command::Request { call: Call::Eval(params), waiter }).await?;
        // An error here means that it was refused or already answered; the answer distinguishes them.
        let _ = id_rx.changed().await;
        Ok(Pending { client: self.clone(), id_rx, answer_rx })
    }

    /// Calls a binding of the server.
    pub async fn invoke(&self, binding: &str, input: Value) -> Result<Value, ClientError> {
        let target = Target::Binding(binding.to_owned());
        self.invoke_on(None, InvokeParams { target, payload: Payload::Input(input) }).await
    }

    async fn invoke_on(&self, connection: Option<u64>, params: InvokeParams) -> Result<Value, ClientError> {
        let place = self.place(&self.0.call_places).await?;
        self.call(Call::Invoke { params, connection }, Some(place)).await
    }

    async fn call(&self, call: Call, place: Option<OwnedSemaphorePermit>) -> Result<Value, ClientError> {
        let (answer_tx, answer_rx) = oneshot::channel();
        self.send(Command::Request { call, waiter: Waiter::new(answer_tx, None, place) }).await?;
        let mut result = answer_rx.await.map_err(|_dropped| self.closed_error())??;
        match result.get_mut("value") {
            Some(value) => Ok(value.take()),
            None => Err(ClientError::Unexpected("the result has no `value`".to_owned())),
        }
    }

    /// Ends an eval of this connection by its id, or the running one; the answer lists what was ended.
    pub async fn cancel(&self, eval: Option<u64>) -> Result<Value, ClientError> {
        let input = eval.map_or_else(|| json!({}), |id| json!({"evalId": id}));
        let target = Target::Binding("session.cancel".to_owned());
        let params = InvokeParams { target, payload: Payload::Input(input) };
        // It does not wait behind other calls: they may wait for the eval that it ends.
        self.call(Call::Invoke { params, connection: None }, None).await
    }

    /// Makes a closure a value that can be part of an input or an answer. It lives until the connection ends or the
    /// server has released every sending of it.
    pub async fn export<F, R>(&self, name: &str, call: F) -> Result<Value, ClientError>
    where
        F: Fn(Vec<Value>, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        let (value_tx, value_rx) = oneshot::channel();
        let handler = handler::of_function(call);
        self.send(Command::Export { name: name.to_owned(), handler, value_tx }).await?;
        value_rx.await.map_err(|_dropped| self.closed_error())?
    }

    /// The function that a received value stands for; `None` if it is not a function, or was released. Take every
    /// function that is still wanted before the last handle of the same one is dropped.
    pub fn function(&self, value: &Value) -> Option<RemoteFunction> {
        let id = value.get("$fn")?.as_str()?;
        let connected = self.connected();
        connected.imports.hold(id).then(|| RemoteFunction {
            client: self.clone(),
            imports: Arc::clone(&connected.imports),
            connection: connected.number,
            id: id.to_owned(),
            name: value.get("name").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// The session of the current connection, or of the last one.
    pub fn session(&self) -> Session {
        self.connected().session.clone()
    }

    /// The server's bindings, as it declared them.
    pub fn bindings(&self) -> Arc<[Value]> {
        Arc::clone(&self.connected().bindings)
    }

    /// How the server describes itself.
    pub fn metadata(&self) -> Value {
        self.connected().metadata.clone()
    }

    /// Ends the session and closes the connection; what still waits for an answer fails. Returns when it is done.
    /// Without a connection the session stays on the server until its time is over.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.closed().await;
    }

    /// Closes the connection and keeps the session on the server, to be resumed with [`Session::resume`].
    pub async fn leave(&self) {
        self.0.keeps_session.store(true, Ordering::Relaxed);
        self.close().await;
    }

    /// Waits for a place among the requests that the server has.
    async fn place(&self, places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ClientError> {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Ok(place);
        }
        tokio::select! {
            place = Arc::clone(places).acquire_owned() => place.map_err(|_closed| self.closed_error()),
            _ended = self.closed() => Err(self.closed_error()),
        }
    }

    /// Waits for the end, and returns its close code and reason.
    pub async fn closed(&self) -> (u16, String) {
        let mut closed_rx = self.0.closed_rx.clone();
        match closed_rx.wait_for(Option::is_some).await.as_deref() {
            Ok(Some((code, reason))) => (*code, reason.clone()),
            Ok(None) | Err(_) => (close_code::ABNORMAL, "the client's task has ended".to_owned()),
        }
    }

    /// Whether the connection has ended for good.
    pub fn is_closed(&self) -> bool {
        self.0.closed_rx.borrow().is_some()
    }

    fn connected(&self) -> Arc<Connected> {
        Arc::clone(&self.0.connected_rx.borrow())
    }

    async fn send(&self, command: Command) -> Result<(), ClientError> {
        self.0.commands_tx.send(command).await.map_err(|_closed| self.closed_error())
    }

    fn closed_error(&self) -> ClientError {
        let (code, reason) =
            self.0.closed_rx.borrow().clone().unwrap_or((close_code::ABNORMAL, String::new()));
        ClientError::Closed { code, reason }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.connected().session.id).finish_non_exhaustive()
    }
}

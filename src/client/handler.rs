//! The closures that the server may call: bindings, exported functions, and the two reserved bindings.
//!
//! All become one boxed shape early, so that the machine and the driver know nothing of types. A panic inside a handler
//! is an error of that call; the connection and the other calls go on.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{CallError, Client};
use crate::protocol::methods::Payload;
use crate::rpc::{ErrorObject, Kind};

/// What a handler answers.
pub type Outcome = Result<Value, ErrorObject>;

type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A closure that the server may call.
pub(super) type Handler = Arc<dyn Fn(Payload, CallContext) -> HandlerFuture + Send + Sync>;

/// What a handler knows of the call, beside its input.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub(super) client: Client,
}

impl CallContext {
    /// The connection on which the call came, for calls back into it.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// A binding: one input.
pub(super) fn of_binding<F, R>(handle: F) -> Handler
where
    F: Fn(Value, CallContext) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    Arc::new(move |payload, context| {
        let input = match payload {
            Payload::Input(input) => input,
            Payload::Args(args) => Value::Array(args),
        };
        Box::pin(handle(input, context))
    })
}

/// A function: any number of arguments.
pub(super) fn of_function<F, R>(handle: F) -> Handler
where
    F: Fn(Vec<Value>, CallContext) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    Arc::new(move |payload, context| {
        let args = match payload {
            Payload::Input(input) => vec![input],
            Payload::Args(args) => args,
        };
        Box::pin(handle(args, context))
    })
}

/// A binding with types of its own.
pub(super) fn of_typed<F, T, U, R>(handle: F) -> Handler
where
    F: Fn(T) -> R + Send + Sync + 'static,
    T: DeserializeOwned,
    U: Serialize,
    R: Future<Output = Result<U, CallError>> + Send + 'static,
{
    of_binding(move |input, _context| {
        let call = serde_json::from_value(input).map(&handle);
        async move {
            let output = call.map_err(invalid_input)?.await.map_err(|CallError(error)| error)?;
            serde_json::to_value(output)
                .map_err(|error| ErrorObject::new(Kind::InvalidOutput, error.to_string()))
        }
    })
}

fn invalid_input(error: serde_json::Error) -> ErrorObject {
    let message = error.to_string();
    ErrorObject::new(Kind::InvalidInput, message.clone())
        .with("errors", json!([{"path": "", "message": message}]))
}

/// Runs a handler to its end, whatever it does.
pub(super) async fn run(handler: Handler, payload: Payload, context: CallContext) -> Outcome {
    let running = AssertUnwindSafe(async move { handler(payload, context).await });
    match running.catch_unwind().await {
        Ok(outcome) => outcome,
        Err(_panic) => Err(ErrorObject::new(Kind::BindingError, "the handler panicked")),
    }
}

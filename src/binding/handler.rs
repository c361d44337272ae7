//! The function behind a binding.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{BindingError, Call};
use crate::rpc::Kind;

/// What a handler is busy with.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Value, BindingError>> + Send>>;

/// The work of a binding. Input and output are in their wire form and checked by the caller.
///
/// It runs on the session's thread beside other sessions: what blocks belongs into `tokio::task::spawn_blocking`.
pub trait Handler: Send + Sync + 'static {
    /// Starts one call.
    fn call(&self, input: Value, call: Call) -> HandlerFuture;
}

impl<F, Fut> Handler for F
where
    F: Fn(Value, Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, BindingError>> + Send + 'static,
{
    fn call(&self, input: Value, call: Call) -> HandlerFuture {
        Box::pin(self(input, call))
    }
}

/// A handler from a function over JSON values.
pub fn handler<F, Fut>(function: F) -> Arc<dyn Handler>
where
    F: Fn(Value, Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, BindingError>> + Send + 'static,
{
    Arc::new(function)
}

/// A handler from a function over Rust types.
pub fn typed<I, O, F, Fut>(function: F) -> Arc<dyn Handler>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize,
    F: Fn(I, Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, BindingError>> + Send + 'static,
{
    let function = Arc::new(function);
    handler(move |input, call| {
        let function = Arc::clone(&function);
        async move {
            let input = serde_json::from_value(input)
                .map_err(|error| BindingError::of_kind(Kind::InvalidInput, error.to_string()))?;
            let output = function(input, call).await?;
            serde_json::to_value(output)
                .map_err(|error| BindingError::of_kind(Kind::InvalidOutput, error.to_string()))
        }
    })
}

//! The function behind a binding.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::function::{self, Writer};
use super::{BindingError, Call};

/// What a handler is busy with.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Value, BindingError>> + Send>>;

/// The work of a binding. Input and output are in their wire form and checked by the caller.
///
/// It runs on the session's thread beside other sessions: what blocks belongs into `tokio::task::spawn_blocking`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "expected an async function from `serde_json::Value` and `Call` to `Result<Value, BindingError>`",
    note = "a function over types of your own becomes a handler with `scomp::binding::typed`",
    note = "a function with `#[scomp::binding]` is added by its name: `.add::<function>()`"
)]
pub trait Handler: Send + Sync + 'static {
    /// Starts one call.
    fn call(&self, input: Value, call: Call) -> HandlerFuture;

    /// The effects that a call with this input has beside the declared ones, for instance `external` where the input
    /// names another server. Policy, approval and audit see both. `input` has not been checked against its schema.
    fn added_effects(&self, _input: &Value) -> &'static [&'static str] {
        &[]
    }
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
///
/// ```
/// use scomp::binding::handler;
/// use serde_json::json;
///
/// let echo = handler(|input, _call| async move { Ok(json!({ "received": input })) });
/// # let _ = echo;
/// ```
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
            let writer = Writer::of(&call);
            let input = function::read(input, &call)?;
            writer.write(&function(input, call).await?)
        }
    })
}

/// A handler whose calls have more effects where their input has a certain member.
struct EffectsWithMember {
    handler: Arc<dyn Handler>,
    member: &'static str,
    effects: &'static [&'static str],
}

impl Handler for EffectsWithMember {
    fn call(&self, input: Value, call: Call) -> HandlerFuture {
        self.handler.call(input, call)
    }

    fn added_effects(&self, input: &Value) -> &'static [&'static str] {
        match input.get(self.member) {
            // A script's `undefined` counts as absent only if the handler takes it so; the stricter reading is safe.
            Some(_) => self.effects,
            None => self.handler.added_effects(input),
        }
    }
}

/// The same handler; a call whose input has `member` also has `effects`.
pub fn add_effects_with_member(
    handler: Arc<dyn Handler>,
    member: &'static str,
    effects: &'static [&'static str],
) -> Arc<dyn Handler> {
    Arc::new(EffectsWithMember { handler, member, effects })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn effects_are_added_only_with_the_member() {
        let plain = handler(|input, _| async move { Ok(input) });
        let handler = add_effects_with_member(plain, "peer", &["external"]);
        assert_eq!(handler.added_effects(&json!({"peer": "other"})), ["external"]);
        assert_eq!(handler.added_effects(&json!({"peer": null})), ["external"]);
        assert!(handler.added_effects(&json!({"space": "peer"})).is_empty());
        assert!(handler.added_effects(&json!("peer")).is_empty());
    }
}

//! Handlers that share the state of their package.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::NamedHandlers;
use crate::binding::{BindingError, Call, Handler, typed};

/// Collects the handlers of a package. Each is an `async fn(Arc<State>, Input, Call) -> Result<Output, BindingError>`, so
/// that no handler needs a clone of the state of its own.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use scomp::binding::{BindingError, Call};
/// use scomp::package::{Bindings, PackageContext, PackageInstance};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Step { by: u64 }
///
/// async fn add(count: Arc<AtomicU64>, step: Step, _: Call) -> Result<u64, BindingError> {
///     Ok(count.fetch_add(step.by, Ordering::Relaxed) + step.by)
/// }
///
/// async fn open(context: PackageContext) -> Result<PackageInstance, String> {
///     let count = Arc::new(AtomicU64::new(0));
///     Ok(context.bind(Bindings::with(count).on("counter.add", add)).into())
/// }
/// # let _ = open;
/// ```
pub struct Bindings<S> {
    state: Arc<S>,
    handlers: NamedHandlers,
}

impl<S: Send + Sync + 'static> Bindings<S> {
    /// No handlers yet, for this state.
    pub fn with(state: Arc<S>) -> Self {
        Self { state, handlers: Vec::new() }
    }

    /// Adds the handler of the binding of that name.
    #[must_use]
    pub fn on<I, O, F, Fut>(self, name: &'static str, function: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        F: Fn(Arc<S>, I, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, BindingError>> + Send + 'static,
    {
        let state = Arc::clone(&self.state);
        let handler = typed(move |input: I, call| function(Arc::clone(&state), input, call));
        self.handler(name, handler)
    }

    /// Adds a handler that does not use the state.
    #[must_use]
    pub fn handler(mut self, name: &'static str, handler: Arc<dyn Handler>) -> Self {
        self.handlers.push((name, handler));
        self
    }
}

impl<S> From<Bindings<S>> for NamedHandlers {
    fn from(bindings: Bindings<S>) -> Self {
        bindings.handlers
    }
}

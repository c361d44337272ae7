//! State that the handlers of a package share, by its type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

/// State that a [binding function](macro@crate::binding) takes as an argument. It derefs to `T`, and a clone is another
/// handle to the same value.
///
/// [`Package::state`](crate::package::Package::state) and
/// [`ServerBuilder::state`](crate::server::ServerBuilder::state) add it. A binding function whose state was not added
/// is a problem when the server is built.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use scomp::binding::State;
/// use scomp::package::Package;
/// use scomp::testing::TestServer;
///
/// /// Counts the calls.
/// #[scomp::binding(name = "counter.next", effects = ["write"])]
/// async fn next(count: State<AtomicU64>) -> u64 {
///     count.fetch_add(1, Ordering::Relaxed) + 1
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counter = Package::new("counter").state(AtomicU64::new(0)).add::<next>();
/// let server = TestServer::start(counter).await?;
/// assert_eq!(server.eval("await counter.next(); await counter.next()").await?, 2);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// The value as it is shared, for a task of the handler's own.
    pub fn into_arc(self) -> Arc<T> {
        self.0
    }
}

impl<T> From<T> for State<T> {
    fn from(state: T) -> Self {
        Self(Arc::new(state))
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The states of a package, at most one of each type.
#[derive(Debug, Clone, Default)]
pub struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    /// Adds a state, or replaces the one of that type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, state: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(state));
    }

    /// The state of that type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Result<State<T>, MissingState> {
        let found = self.0.get(&TypeId::of::<T>()).map(Arc::clone);
        let state = found.and_then(|state| state.downcast::<T>().ok());
        state.map(State).ok_or(MissingState { type_name: type_name::<T>() })
    }
}

/// A binding function takes a [`State`] that its package does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no state of type `{type_name}`; expected `.state(…)` with one")]
pub struct MissingState {
    type_name: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_found_by_its_type_only() {
        let mut states = States::default();
        states.insert(7_u64);
        states.insert(8_u64);
        assert_eq!(*states.get::<u64>().unwrap(), 8);
        let missing = states.get::<String>().unwrap_err();
        assert!(missing.to_string().starts_with("no state of type `alloc::string::String`"), "{missing}");
    }
}

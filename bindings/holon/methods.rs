//! The registry of served methods: handlers that scripts registered, and bindings that the
//! configuration names.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::machine::HEARTBEAT;
use crate::binding::{FunctionRef, HostFunctions};
use crate::peering::Host;

/// Most methods that scripts can serve, over all sessions.
/// Each holds a function of a session. A server with more has scripts that register handlers by
/// mistake.
const METHODS_MAX: usize = 10_000;

/// Longest name of a method.
pub(super) const METHOD_BYTES_MAX: usize = 256;

/// A function of a script that handles a method.
#[derive(Debug, Clone)]
pub(super) struct ScriptHandler {
    pub(super) function: FunctionRef,
    /// Where `peer.call` is exported to the script for each request.
    pub(super) host_functions: HostFunctions,
    pub(super) session: String,
    pub(super) principal: String,
}

/// What handles a method.
#[derive(Debug, Clone)]
pub(super) enum MethodTarget {
    Script(ScriptHandler),
    Binding(String),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error("method {0:?} is already served")]
    AlreadyServed(String),
    #[error("expected a method name of 1 to {METHOD_BYTES_MAX} bytes")]
    InvalidName,
    #[error("too many methods: at most {METHODS_MAX} can be served")]
    TooManyMethods,
    #[error("method {0:?} belongs to another principal")]
    OwnedByOther(String),
}

/// Shared by all connections of the package.
#[derive(Debug)]
pub(super) struct MethodRegistry {
    scripts: Mutex<HashMap<String, ScriptHandler>>,
    bindings: HashMap<String, String>,
    /// By method, the only principal whose scripts may serve it.
    owners: HashMap<String, String>,
    pub(super) handler_timeout: Duration,
    host: OnceLock<Host>,
}

impl MethodRegistry {
    pub(super) fn new(
        bindings: HashMap<String, String>,
        owners: HashMap<String, String>,
        handler_timeout: Duration,
    ) -> Arc<Self> {
        Arc::new(Self { scripts: Mutex::default(), bindings, owners, handler_timeout, host: OnceLock::new() })
    }

    /// Sets the server that bindings are called on. If two servers of a process share the package,
    /// the first one stays.
    pub(super) fn set_host(&self, host: Host) {
        let _ = self.host.set(host);
    }

    pub(super) fn host(&self) -> Option<&Host> {
        self.host.get()
    }

    /// Registers a script's handler. It replaces one of the same session, or of a session that has
    /// ended.
    pub(super) fn serve(&self, method: &str, handler: ScriptHandler) -> Result<(), ServeError> {
        if method.trim().is_empty() || method.len() > METHOD_BYTES_MAX {
            return Err(ServeError::InvalidName);
        }
        if self.owners.get(method).is_some_and(|owner| *owner != handler.principal) {
            return Err(ServeError::OwnedByOther(method.to_owned()));
        }
        let mut scripts = self.scripts.lock();
        let is_served = scripts
            .get(method)
            .is_some_and(|known| known.session != handler.session && !known.function.is_gone());
        if is_served || method == HEARTBEAT || self.bindings.contains_key(method) {
            return Err(ServeError::AlreadyServed(method.to_owned()));
        }
        if scripts.len() >= METHODS_MAX {
            scripts.retain(|_, known| !known.function.is_gone());
        }
        if scripts.len() >= METHODS_MAX && !scripts.contains_key(method) {
            return Err(ServeError::TooManyMethods);
        }
        scripts.insert(method.to_owned(), handler);
        Ok(())
    }

    /// Removes the handler of a method if the session registered it. Returns whether it did.
    pub(super) fn unserve(&self, method: &str, session: &str) -> bool {
        let mut scripts = self.scripts.lock();
        let is_own = scripts.get(method).is_some_and(|known| known.session == session);
        is_own && scripts.remove(method).is_some()
    }

    pub(super) fn find(&self, method: &str) -> Option<MethodTarget> {
        if let Some(binding) = self.bindings.get(method) {
            return Some(MethodTarget::Binding(binding.clone()));
        }
        let mut scripts = self.scripts.lock();
        if scripts.get(method)?.function.is_gone() {
            scripts.remove(method);
        }
        scripts.get(method).cloned().map(MethodTarget::Script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::{CallbackReceiver, Callbacks};
    use crate::protocol::fn_ref::FnRef;

    /// A handler of a session, which has ended once the receiver is dropped.
    fn handler_of(session: &str) -> (ScriptHandler, CallbackReceiver) {
        let (link, requests_rx) = Callbacks::channel(1);
        let function = FunctionRef::new(FnRef::Script(1), link);
        let (session, principal) = (session.to_owned(), format!("principal of {session}"));
        let handler =
            ScriptHandler { function, host_functions: HostFunctions::default(), session, principal };
        (handler, requests_rx)
    }

    fn registry() -> Arc<MethodRegistry> {
        let bindings = HashMap::from([("shop.v1.Shop/Order".to_owned(), "getOrder".to_owned())]);
        MethodRegistry::new(bindings, HashMap::new(), Duration::from_secs(1))
    }

    #[test]
    fn method_of_ended_session_can_be_served_again() {
        let registry = registry();
        let (first, first_rx) = handler_of("a");
        let (second, _second_rx) = handler_of("b");
        registry.serve("m", first.clone()).unwrap();
        assert!(matches!(registry.serve("m", second.clone()), Err(ServeError::AlreadyServed(_))));
        registry.serve("m", first).unwrap();
        drop(first_rx);
        assert!(registry.find("m").is_none());
        registry.serve("m", second).unwrap();
        assert!(matches!(registry.find("m"), Some(MethodTarget::Script(handler)) if handler.session == "b"));
    }

    #[test]
    fn unserve_by_another_session_has_no_effect() {
        let registry = registry();
        let (own, _rx) = handler_of("a");
        registry.serve("m", own).unwrap();
        assert!(!registry.unserve("m", "b"));
        assert!(registry.unserve("m", "a"));
        assert!(!registry.unserve("m", "a"));
    }

    #[test]
    fn configured_and_built_in_methods_cannot_be_served() {
        let registry = registry();
        for method in ["shop.v1.Shop/Order", HEARTBEAT] {
            assert!(matches!(registry.serve(method, handler_of("a").0), Err(ServeError::AlreadyServed(_))));
        }
        let target = registry.find("shop.v1.Shop/Order");
        assert!(matches!(target, Some(MethodTarget::Binding(name)) if name == "getOrder"));
    }

    #[test]
    fn method_names_and_their_number_are_limited() {
        let registry = registry();
        let (handler, _rx) = handler_of("a");
        assert!(registry.serve(&"m".repeat(METHOD_BYTES_MAX), handler.clone()).is_ok());
        for name in [String::new(), " ".to_owned(), "m".repeat(METHOD_BYTES_MAX + 1)] {
            assert!(matches!(registry.serve(&name, handler.clone()), Err(ServeError::InvalidName)));
        }
        for number in 1..METHODS_MAX {
            registry.serve(&format!("m{number}"), handler.clone()).unwrap();
        }
        assert!(matches!(registry.serve("more", handler.clone()), Err(ServeError::TooManyMethods)));
        assert!(registry.serve("m1", handler).is_ok());
    }
}

//! Who serves which method: scripts that said so, and bindings that the configuration names.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::machine::HEARTBEAT;
use crate::binding::{FunctionRef, HostFunctions};
use crate::peering::Host;

/// Methods that scripts may serve in all.
/// Each holds a function of a session; a server with more has scripts that serve by mistake.
const METHODS_MAX: usize = 10_000;

/// Longest name of a method.
pub(super) const METHOD_BYTES_MAX: usize = 256;

/// A script's handler of a method.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) handler: FunctionRef,
    /// Where functions are put that the handler is given.
    pub(super) host_functions: HostFunctions,
    /// The session that it belongs to, and its principal.
    pub(super) session: String,
    pub(super) principal: String,
}

/// What answers a method.
#[derive(Debug, Clone)]
pub(super) enum Service {
    Script(Served),
    Binding(String),
}

/// Why a script cannot serve a method.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error("the method {0:?} is served already")]
    Taken(String),
    #[error("a method is named by 1 to {METHOD_BYTES_MAX} bytes")]
    BadName,
    #[error("more than {METHODS_MAX} methods are served")]
    TooMany,
    #[error("the method {0:?} belongs to another principal")]
    Foreign(String),
}

/// What all connections of the package share.
#[derive(Debug)]
pub(super) struct Hub {
    scripts: Mutex<HashMap<String, Served>>,
    bindings: HashMap<String, String>,
    /// The principals whose scripts alone may serve a method.
    owners: HashMap<String, String>,
    /// How long a handler may take.
    pub(super) handler_max: Duration,
    host: OnceLock<Host>,
}

impl Hub {
    pub(super) fn new(
        bindings: HashMap<String, String>,
        owners: HashMap<String, String>,
        handler_max: Duration,
    ) -> Arc<Self> {
        Arc::new(Self { scripts: Mutex::default(), bindings, owners, handler_max, host: OnceLock::new() })
    }

    /// The server is up.
    pub(super) fn started(&self, host: Host) {
        // The second server of a process that shares a package would be served by the first.
        let _ = self.host.set(host);
    }

    pub(super) fn host(&self) -> Option<&Host> {
        self.host.get()
    }

    /// Takes a method for a script; one of a session that is gone is free again.
    pub(super) fn serve(&self, method: &str, served: Served) -> Result<(), ServeError> {
        if method.trim().is_empty() || method.len() > METHOD_BYTES_MAX {
            return Err(ServeError::BadName);
        }
        if self.owners.get(method).is_some_and(|owner| *owner != served.principal) {
            return Err(ServeError::Foreign(method.to_owned()));
        }
        let mut scripts = self.scripts.lock();
        let is_taken = scripts
            .get(method)
            .is_some_and(|known| known.session != served.session && !known.handler.is_gone());
        if is_taken || method == HEARTBEAT || self.bindings.contains_key(method) {
            return Err(ServeError::Taken(method.to_owned()));
        }
        if scripts.len() >= METHODS_MAX {
            scripts.retain(|_, known| !known.handler.is_gone());
        }
        if scripts.len() >= METHODS_MAX && !scripts.contains_key(method) {
            return Err(ServeError::TooMany);
        }
        scripts.insert(method.to_owned(), served);
        Ok(())
    }

    /// Gives a method up, if it is the session's own.
    pub(super) fn unserve(&self, method: &str, session: &str) -> bool {
        let mut scripts = self.scripts.lock();
        let is_own = scripts.get(method).is_some_and(|known| known.session == session);
        is_own && scripts.remove(method).is_some()
    }

    pub(super) fn find(&self, method: &str) -> Option<Service> {
        if let Some(binding) = self.bindings.get(method) {
            return Some(Service::Binding(binding.clone()));
        }
        let mut scripts = self.scripts.lock();
        if scripts.get(method)?.handler.is_gone() {
            scripts.remove(method);
        }
        scripts.get(method).cloned().map(Service::Script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::{CallbackRequest, Callbacks, DroppedRefs};
    use crate::protocol::fn_ref::FnRef;
    use tokio::sync::mpsc;

    fn served(session: &str) -> (Served, mpsc::Receiver<CallbackRequest>) {
        let (requests_tx, requests_rx) = mpsc::channel(1);
        let link = Callbacks { requests_tx, dropped_refs: DroppedRefs::default() };
        let handler = FunctionRef::new(FnRef::Script(1), link);
        let (session, principal) = (session.to_owned(), format!("principal of {session}"));
        (Served { handler, host_functions: HostFunctions::default(), session, principal }, requests_rx)
    }

    fn hub() -> Arc<Hub> {
        let bindings = HashMap::from([("shop.v1.Shop/Order".to_owned(), "getOrder".to_owned())]);
        Hub::new(bindings, HashMap::new(), Duration::from_secs(1))
    }

    #[test]
    fn the_later_of_two_who_serve_a_method_is_refused_until_the_first_is_gone() {
        let hub = hub();
        let (first, first_rx) = served("a");
        let (second, _second_rx) = served("b");
        hub.serve("m", first.clone()).unwrap();
        assert!(matches!(hub.serve("m", second.clone()), Err(ServeError::Taken(_))));
        hub.serve("m", first).unwrap();
        drop(first_rx);
        assert!(hub.find("m").is_none());
        hub.serve("m", second).unwrap();
        assert!(matches!(hub.find("m"), Some(Service::Script(served)) if served.session == "b"));
    }

    #[test]
    fn a_method_is_given_up_only_by_its_own_session() {
        let hub = hub();
        let (own, _rx) = served("a");
        hub.serve("m", own).unwrap();
        assert!(!hub.unserve("m", "b"));
        assert!(hub.unserve("m", "a"));
        assert!(!hub.unserve("m", "a"));
    }

    #[test]
    fn what_the_configuration_and_the_protocol_serve_is_taken() {
        let hub = hub();
        for method in ["shop.v1.Shop/Order", HEARTBEAT] {
            assert!(matches!(hub.serve(method, served("a").0), Err(ServeError::Taken(_))));
        }
        assert!(matches!(hub.find("shop.v1.Shop/Order"), Some(Service::Binding(name)) if name == "getOrder"));
    }

    #[test]
    fn names_and_numbers_of_methods_are_bounded() {
        let hub = hub();
        let (one, _rx) = served("a");
        assert!(hub.serve(&"m".repeat(METHOD_BYTES_MAX), one.clone()).is_ok());
        for name in [String::new(), " ".to_owned(), "m".repeat(METHOD_BYTES_MAX + 1)] {
            assert!(matches!(hub.serve(&name, one.clone()), Err(ServeError::BadName)));
        }
        for number in 1..METHODS_MAX {
            hub.serve(&format!("m{number}"), one.clone()).unwrap();
        }
        assert!(matches!(hub.serve("more", one.clone()), Err(ServeError::TooMany)));
        assert!(hub.serve("m1", one).is_ok());
    }
}

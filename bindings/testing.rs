//! Calls handlers as a session would, for the tests of packages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Handlers;
use crate::binding::{
    Binding, BindingError, Call, Callbacks, CancelSignal, HostFunctions, Policy, Principal, SessionScope,
};
use crate::observe::audit::Audit;
use crate::package::{Package, PackageContext};
use crate::quota::Quotas;
use crate::rpc::ErrorObject;

/// A call from a session of `principal`. The session does not exist, so callbacks to it fail.
pub(crate) fn new_call(principal: &str) -> Call {
    Call {
        session: Arc::new(SessionScope {
            id: "sess_test".to_owned(),
            principal: Arc::new(Principal::new(principal, Policy::default(), Quotas::default())),
            audit: Audit::default(),
        }),
        deadline: Instant::now() + Duration::from_secs(30),
        cancel: CancelSignal::default(),
        depth: 0,
        eval_id: None,
        script_call: None,
        link: Callbacks::channel(1).0,
        host_functions: HostFunctions::default(),
        functions: Vec::new(),
    }
}

/// The handlers of a package made in code, as a declaration file without bindings binds them.
pub(crate) fn handlers_of(package: Package) -> Handlers {
    let bindings = PackageContext::new(Value::Null, ".").bind_package(package).unwrap();
    let named = |binding: Binding| (&*binding.declaration.name.leak(), binding.handler);
    bindings.into_iter().map(named).collect()
}

/// Calls a handler by the name of its binding.
pub(crate) async fn run(
    handlers: &Handlers,
    name: &str,
    input: Value,
    principal: &str,
) -> Result<Value, ErrorObject> {
    let (_, handler) = handlers.iter().find(|(found, _)| *found == name).expect("a handler of that name");
    handler.call(input, new_call(principal)).await.map_err(BindingError::into_object)
}

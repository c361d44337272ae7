//! A call as a session would make it, for the tests of packages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use serde_json::Value;

use super::Handlers;
use crate::binding::{Call, Callbacks, HostFunctions, Policy, Principal, SessionScope};
use crate::observe::audit::Audit;
use crate::quota::Quotas;
use crate::rpc::ErrorObject;

/// A call of a session of `principal` that nobody listens to.
pub(crate) fn call_of(principal: &str) -> Call {
    Call {
        session: Arc::new(SessionScope {
            id: "sess_test".to_owned(),
            principal: Arc::new(Principal::new(principal, Policy::default(), Quotas::default())),
            audit: Audit::default(),
        }),
        deadline: Instant::now() + Duration::from_secs(30),
        cancel: CancellationToken::new(),
        depth: 0,
        eval_id: None,
        script_call: None,
        link: Callbacks::channel(1).0,
        host_functions: HostFunctions::default(),
        functions: Vec::new(),
    }
}

/// Calls a handler by the name of its binding.
pub(crate) async fn run(
    handlers: &Handlers,
    name: &str,
    input: Value,
    principal: &str,
) -> Result<Value, ErrorObject> {
    let (_, handler) = handlers.iter().find(|(found, _)| *found == name).expect("a handler of that name");
    handler.call(input, call_of(principal)).await.map_err(crate::binding::BindingError::into_object)
}

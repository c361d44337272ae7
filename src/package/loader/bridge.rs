//! Functions that cross between a session and an executable, each of which has its own references.
//!
//! A function of the script is exported to the executable as a closure that calls it, and the other way round. Either
//! is kept by the side that received it and ends when that side releases it, so nothing is counted twice here.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::binding::{
    BindingError, Call, Callbacks, FunctionRef, HostFunctions, NativeFunction, handler, tags,
};
use crate::client::{Client, ClientError, RemoteFunction};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::rpc::{ErrorObject, Kind};

/// Both ends of one call.
#[derive(Clone)]
pub(super) struct Bridge {
    client: Client,
    link: Callbacks,
    host_functions: HostFunctions,
    depth: u32,
}

impl Bridge {
    pub(super) fn new(client: Client, call: &Call) -> Self {
        Self {
            client,
            link: call.link.clone(),
            host_functions: call.host_functions.clone(),
            depth: call.depth,
        }
    }

    /// A value of the session, with its functions made callable for the executable.
    ///
    /// Boxed because a function may take and return functions, whose futures would contain this one.
    pub(super) fn to_peer(
        &self,
        mut value: Value,
        functions: Vec<FunctionRef>,
    ) -> BoxFuture<'_, Result<Value, BindingError>> {
        Box::pin(async move {
            let mut exported = BTreeMap::new();
            for function in functions {
                if exported.contains_key(function.id()) {
                    continue;
                }
                let name = name_of(&value, function.id()).unwrap_or_default();
                let id = function.id().clone();
                exported.insert(id, self.export(&name, function).await?);
            }
            fn_values::replace(&mut value, &mut |function| {
                exported.get(&FnRef::parse_or_unknown(fn_values::id_of(function)?)).cloned()
            });
            Ok(value)
        })
    }

    async fn export(&self, name: &str, function: FunctionRef) -> Result<Value, BindingError> {
        let bridge = self.clone();
        let exported = self.client.export(name, move |arguments, _| {
            let (bridge, function) = (bridge.clone(), function.clone());
            async move { bridge.call_script(&function, arguments).await }
        });
        exported.await.map_err(failure)
    }

    /// The executable calls a function of the session.
    async fn call_script(&self, function: &FunctionRef, arguments: Vec<Value>) -> Result<Value, ErrorObject> {
        tags::check_arguments(&arguments)?;
        let arguments = arguments.into_iter().map(|argument| self.to_script(argument)).collect();
        let called = function.call(arguments, self.depth).await;
        let returned = called.map_err(BindingError::into_object)?;
        let functions = received(&returned, &self.link);
        self.to_peer(returned, functions).await.map_err(BindingError::into_object)
    }

    /// What the executable answered, if it is well formed.
    pub(super) fn accept(&self, answer: Result<Value, ClientError>) -> Result<Value, BindingError> {
        Ok(self.to_script(tags::check_answer(answer.map_err(failure)?)?))
    }

    /// A value of the executable, with its functions made callable for the session.
    fn to_script(&self, mut value: Value) -> Value {
        fn_values::replace(&mut value, &mut |function| {
            let Some(remote) = self.client.function(function) else {
                // Past the limit of live references. The executable's id would name another function in the session.
                return Some(json!({"$fn": FnRef::unknown(fn_values::id_of(function)?).to_string()}));
            };
            let name = remote.name().unwrap_or_default().to_owned();
            Some(self.host_functions.export(&name, self.native(remote)))
        });
        value
    }

    fn native(&self, remote: RemoteFunction) -> NativeFunction {
        let client = self.client.clone();
        handler(move |arguments, call| {
            let (remote, bridge) = (remote.clone(), Bridge::new(client.clone(), &call));
            async move { bridge.call_peer(&remote, arguments, call).await }
        })
    }

    /// The session calls a function of the executable.
    async fn call_peer(
        &self,
        remote: &RemoteFunction,
        arguments: Value,
        call: Call,
    ) -> Result<Value, BindingError> {
        let arguments = match self.to_peer(arguments, call.functions.clone()).await? {
            Value::Array(arguments) => arguments,
            single => vec![single],
        };
        self.accept(remote.call(arguments).await)
    }
}

/// What a failed call to an executable is to the caller.
fn failure(error: ClientError) -> BindingError {
    let kind = match &error {
        ClientError::Rpc(object) => return BindingError::from(object.clone()),
        ClientError::Closed { .. } => {
            return BindingError::of_kind(Kind::PeerGone, "the command ended before it answered");
        }
        ClientError::SessionLost | ClientError::Transport(_) => Kind::PeerGone,
        ClientError::TooLong { .. } => Kind::InvalidInput,
        ClientError::Busy => Kind::Busy,
        ClientError::Handshake(_) | ClientError::Unexpected(_) => Kind::InvalidOutput,
    };
    BindingError::of_kind(kind, error.to_string())
}

/// The functions in a value that the session sent, one receipt each.
fn received(value: &Value, link: &Callbacks) -> Vec<FunctionRef> {
    let hold = |id| FunctionRef::new(id, link.clone());
    fn_values::names(value).into_iter().map(hold).collect()
}

fn name_of(value: &Value, id: &FnRef) -> Option<String> {
    let (id, mut name) = (id.to_string(), None);
    fn_values::visit(value, &mut |function| {
        if fn_values::id_of(function) == Some(&id) {
            name = function.get("name").and_then(Value::as_str).map(str::to_owned);
        }
    });
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::Package;
    use crate::package::stdio::serve_over;
    use crate::transport::pair;

    #[tokio::test]
    async fn function_not_received_is_unknown_in_the_session() {
        let (ours, theirs) = pair(16);
        tokio::spawn(serve_over(theirs, Package::new("empty")));
        let client = Client::builder().connect_transport(ours).await.unwrap();
        let (link, _callbacks) = Callbacks::channel(1);
        let bridge = Bridge { client, link, host_functions: HostFunctions::default(), depth: 0 };
        let function = bridge.accept(Ok(json!({"$fn": "h1", "name": "x"}))).unwrap();
        assert_eq!(function, json!({"$fn": "0:h1"}));
    }

    #[test]
    fn closed_connection_is_peer_gone_and_an_answer_is_kept() {
        let gone = ClientError::Closed { code: 1006, reason: String::new() };
        assert!(failure(gone).into_object().is(Kind::PeerGone));
        let own = ErrorObject { code: 7, message: "no".into(), data: None };
        assert_eq!(failure(ClientError::Rpc(own.clone())).into_object(), own);
    }
}

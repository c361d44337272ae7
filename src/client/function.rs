//! A function of the script, held by the client.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::references::Imports;
use super::{Client, ClientError};
use crate::protocol::methods::{InvokeParams, Payload, Target};

/// A function that came from the server. While a handle exists the server keeps the function; when the last one is
/// dropped, every receipt of it is given back.
pub struct RemoteFunction {
    pub(super) client: Client,
    pub(super) imports: Arc<Imports>,
    pub(super) connection: u64,
    pub(super) id: String,
    pub(super) name: Option<String>,
}

impl RemoteFunction {
    /// Its name in the script, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Calls it. References end with their connection: after a reconnect this is `Closed`.
    pub async fn call(&self, args: Vec<Value>) -> Result<Value, ClientError> {
        let target = Target::Reference(self.id.clone());
        let params = InvokeParams { target, payload: Payload::Args(args) };
        self.client.invoke_on(Some(self.connection), params).await
    }
}

impl Clone for RemoteFunction {
    fn clone(&self) -> Self {
        // The function is here: this handle holds it.
        self.imports.hold(&self.id);
        Self {
            client: self.client.clone(),
            imports: Arc::clone(&self.imports),
            connection: self.connection,
            id: self.id.clone(),
            name: self.name.clone(),
        }
    }
}

impl Drop for RemoteFunction {
    fn drop(&mut self) {
        self.imports.release(&self.id);
    }
}

impl fmt::Debug for RemoteFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFunction")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

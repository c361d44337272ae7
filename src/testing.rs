//! For the tests of programs that bind functions: a server in the process, and evals on it in one line.
//!
//! ```
//! use scomp::package::Package;
//!
//! /// Greets by name.
//! #[scomp::binding]
//! async fn greet(name: String) -> String {
//!     format!("Hello, {name}!")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let greeting = scomp::testing::eval(Package::new("test").add::<greet>(), "await greet({ name: 'Ada' })").await?;
//! assert_eq!(greeting, "Hello, Ada!");
//! // The function is still a function, so it can be tested without a server.
//! assert_eq!(greet("Ada".to_owned()).await, "Hello, Ada!");
//! # Ok(()) }
//! ```

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::{Builder, Client, ClientError};
use crate::package::Package;
use crate::server::{Server, StartError};

/// Why a test could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The connection failed, or the code did.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A server in this process with one shard, and a session on it. Both end when it is dropped.
///
/// ```
/// use scomp::package::Package;
/// use scomp::testing::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start(Package::new("empty")).await?;
/// server.eval("let count = 1").await?;
/// let count: u32 = server.eval_as("count + 1").await?;
/// assert_eq!(count, 2);
/// assert_eq!(server.eval("missing()").await.unwrap_err().kind(), "EvalError");
/// # Ok(()) }
/// ```
pub struct TestServer {
    server: Server,
    client: Client,
}

impl TestServer {
    /// Starts a server with the bindings of a package.
    pub async fn start(package: Package) -> Result<Self, TestError> {
        Self::start_with(package, Client::builder()).await
    }

    /// The same with a client that has bindings of its own, a console …
    pub async fn start_with(package: Package, client: Builder) -> Result<Self, TestError> {
        let server = Server::builder().shards(1).package(package).build()?;
        let client = client.connect_transport(server.connect()).await?;
        Ok(Self { server, client })
    }

    /// Runs code in the session; what it declares is there in the next eval. Returns the value in its wire form.
    pub async fn eval(&self, code: &str) -> Result<Value, ClientError> {
        Ok(self.client.eval(code).await?.value)
    }

    /// Runs code in the session and reads its value as `T`.
    pub async fn eval_as<T: DeserializeOwned>(&self, code: &str) -> Result<T, ClientError> {
        let value = self.eval(code).await?;
        serde_json::from_value(value).map_err(|error| ClientError::Unexpected(error.to_string()))
    }

    /// Calls a binding without a script. An error is then that of the binding, with its kind.
    pub async fn invoke(&self, binding: &str, input: Value) -> Result<Value, ClientError> {
        self.client.invoke(binding, input).await
    }

    /// The client of the session.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The server, for further connections.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

/// Runs code on a server of its own with the bindings of a package. Returns the value in its wire form.
pub async fn eval(package: Package, code: &str) -> Result<Value, TestError> {
    Ok(TestServer::start(package).await?.eval(code).await?)
}

//! An eval server for agent harnesses, and its client.
//!
//! A harness sends JavaScript or TypeScript over a connection; it runs in a QuickJS session that keeps its state, and
//! has no access to anything outside except through bindings. The wire is scomp v0.1: JSON-RPC 2.0 in both directions.
//!
//! # A server with a binding of its own
//!
//! [`server::Server::builder`] takes functions with [`#[scomp::binding]`](macro@binding)
//! ([`server::ServerBuilder::add`]), functions over serde types ([`server::ServerBuilder::bind`]), packages
//! ([`package::Package`]) or a folder of them ([`package::loader`]). A handler gets its input and a [`binding::Call`],
//! through which it calls back into the client or the script. [`testing`] runs both in a test.
//!
//! ```no_run
//! use scomp::server::Server;
//!
//! #[derive(serde::Serialize, schemars::JsonSchema)]
//! struct Order { id: String, total: f64 }
//!
//! /// Fetch an order by ID.
//! #[scomp::binding(effects = ["read"])]
//! async fn get_order(id: String) -> Option<Order> {
//!     (id == "o_001").then_some(Order { id, total: 142.5 })
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::builder().add::<get_order>().build()?;
//!     Ok(server.serve(tokio::net::TcpListener::bind("127.0.0.1:7400").await?).await?)
//! }
//! ```
//!
//! # A client
//!
//! [`client::Client`] connects over WebSocket, to a child process, or to a server in the same process, declares
//! bindings as closures, and evaluates. It builds without QuickJS: `--no-default-features --features client`.
//!
//! # Underneath
//!
//! [`rpc`] and [`protocol`] are pure: messages, ids, declarations, the state machine of a connection. [`transport`]
//! carries texts. Sessions and the shards that they run on are private; ARCHITECTURE.md says where what is.
// Layers below the server have parts that only it uses; a client alone is built with them.
#![cfg_attr(not(feature = "server"), allow(dead_code, unreachable_pub, unused_imports))]

// Generated code names this crate from outside, also in the packages that are part of it.
extern crate self as scomp;

#[cfg(feature = "server")]
pub mod binding;
#[cfg(feature = "server")]
#[path = "../bindings/mod.rs"]
pub mod bindings;
#[cfg(feature = "client")]
pub(crate) mod budget;
#[cfg(feature = "server")]
pub mod catalog;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub(crate) mod concurrency;
#[cfg(feature = "server")]
pub mod config;
#[cfg(all(feature = "server", any(test, feature = "fuzzing")))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(feature = "server", unix))]
#[allow(dead_code, reason = "the records are complete before all of their users are")]
pub(crate) mod image;
pub mod limits;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "server")]
pub mod observe;
#[cfg(feature = "server")]
pub mod package;
#[cfg(feature = "server")]
pub(crate) mod peering;
pub mod protocol;
#[cfg(feature = "server")]
pub mod quota;
pub mod rpc;
#[cfg(feature = "server")]
pub(crate) mod runtime;
#[cfg(feature = "server")]
pub(crate) mod sandbox;
#[cfg(feature = "server")]
pub mod schema;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub(crate) mod session;
#[cfg(feature = "server")]
pub(crate) mod sessions;
#[cfg(feature = "server")]
pub(crate) mod settings_file;
#[cfg(feature = "server")]
pub(crate) mod store;
#[cfg(feature = "server")]
pub mod testing;
#[cfg(feature = "client")]
pub mod transport;
#[cfg(all(feature = "server", target_os = "linux", target_arch = "x86_64"))]
pub mod worker;

/// The web framework, in the version that [`server::Server::into_router`] belongs to.
#[cfg(feature = "server")]
pub use axum;
#[cfg(feature = "server")]
#[doc(hidden)]
pub use binding::macro_support as __private;
#[cfg(feature = "server")]
pub use binding::values;
#[cfg(feature = "server")]
pub use package::{serve_stdio, serve_stdio_with};
/// The MCP library, in the version whose types [`server::McpExtension`] uses.
#[cfg(feature = "mcp")]
pub use rmcp;
/// The crate that derives schemas, in the version whose traits are used here.
#[cfg(feature = "server")]
pub use schemars;
/// The trait [`binding::ErrorKind`] has an example.
#[cfg(feature = "server")]
pub use scomp_macros::ErrorKind;
/// # Example
///
/// ```
/// use std::collections::BTreeMap;
///
/// use scomp::binding::{BindingError, Call, State};
/// use scomp::package::Package;
///
/// type Orders = BTreeMap<String, f64>;
///
/// /// Fetches the total of an order.
/// #[scomp::binding(name = "orders.total", effects = ["read"], timeout_ms = 2_000)]
/// async fn total(
///     orders: State<Orders>,
///     call: Call,
///     /// As on the invoice.
///     id: String,
///     currency: Option<String>,
/// ) -> Result<String, BindingError> {
///     let total = orders.get(&id).ok_or_else(|| BindingError::new("no such order"))?;
///     Ok(format!("{total} {} for {}", currency.as_deref().unwrap_or("EUR"), call.session.principal.name))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = Orders::from([("o_001".to_owned(), 142.5)]);
/// let package = Package::new("orders").state(orders).add::<total>();
/// let text = scomp::testing::eval(package, "await orders.total({ id: 'o_001' })").await?;
/// assert_eq!(text, "142.5 EUR for anonymous");
/// # Ok(()) }
/// ```
///
/// What an argument can be is checked by the compiler:
///
/// ```compile_fail
/// struct Secret;
///
/// /// A type without a schema cannot come from a script.
/// #[scomp::binding]
/// async fn reveal(secret: Secret) {}
/// ```
#[cfg(feature = "server")]
pub use scomp_macros::binding;

//! A server with one binding of its own, and a script that calls it.
//!
//! `cargo run --example orders` prints `142.5`.

use scomp::binding::{BindingError, Call};
use scomp::client::Client;
use scomp::server::Server;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, schemars::JsonSchema)]
struct OrderQuery {
    id: String,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Order {
    id: String,
    total: f64,
}

async fn get_order(query: OrderQuery, _call: Call) -> Result<Option<Order>, BindingError> {
    let total = 142.5;
    Ok((query.id == "o_001").then_some(Order { id: query.id, total }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().bind("getOrder", "Fetch an order by ID.", get_order).build()?;
    // For the network: `server.serve(TcpListener::bind("127.0.0.1:7400").await?).await?`.
    let client = Client::builder().connect_transport(server.connect()).await?;
    let output = client.eval("const o = await getOrder({ id: 'o_001' }); o.total").await?;
    println!("{}", output.value);
    Ok(())
}

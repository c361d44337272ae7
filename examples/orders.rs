//! A server with one binding of its own, and a script that calls it.
//!
//! `cargo run --example orders` prints `142.5`.

use scomp::client::Client;
use scomp::server::Server;

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Order {
    id: String,
    total: f64,
}

/// Fetch an order by ID.
#[scomp::binding(effects = ["read"])]
async fn get_order(id: String) -> Option<Order> {
    (id == "o_001").then_some(Order { id, total: 142.5 })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().add::<get_order>().build()?;
    // For the network: `server.serve(TcpListener::bind("127.0.0.1:7400").await?).await?`.
    let client = Client::builder().connect_transport(server.connect()).await?;
    let output = client.eval("const o = await getOrder({ id: 'o_001' }); o.total").await?;
    println!("{}", output.value);
    Ok(())
}

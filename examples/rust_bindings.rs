//! Bindings in Rust with everything that they can have: state, errors with kinds, callbacks, dates; and the server inside
//! an axum application.
//!
//! `cargo run --example rust_bindings` prints what the scripts return.

use std::collections::BTreeMap;

use scomp::axum::{self, Router};
use scomp::binding::{BindingError, Call, Function, State};
use scomp::client::Client;
use scomp::package::Package;
use scomp::server::Server;
use scomp::values::Date;
use tokio::net::TcpListener;

type Deliveries = BTreeMap<String, Date>;

#[derive(Debug, thiserror::Error, scomp::ErrorKind)]
enum DeliveryError {
    #[error("order {id} is not on its way")]
    #[kind("NotOnItsWay", code = 404)]
    NotOnItsWay {
        #[data]
        id: String,
    },
}

/// Returns when an order arrives.
#[scomp::binding(name = "delivery.date", effects = ["read"], timeout_ms = 2_000)]
async fn delivery_date(
    deliveries: State<Deliveries>,
    /// As on the invoice.
    id: String,
) -> Result<Date, DeliveryError> {
    deliveries.get(&id).copied().ok_or(DeliveryError::NotOnItsWay { id })
}

/// Calls `visit` with the ID and the date of each delivery; returns how many there are.
#[scomp::binding(name = "delivery.each", effects = ["read"])]
async fn each_delivery(
    deliveries: State<Deliveries>,
    call: Call,
    visit: Function<(String, Date), ()>,
    limit: Option<usize>,
) -> Result<usize, BindingError> {
    let visited = deliveries.iter().take(limit.unwrap_or(100));
    for (id, date) in visited.take_while(|_| !call.cancel.is_cancelled()) {
        visit.call((id.clone(), *date)).await?;
    }
    Ok(deliveries.len())
}

fn package() -> Result<Package, Box<dyn std::error::Error>> {
    let deliveries = Deliveries::from([("o_001".to_owned(), "2026-03-01".parse()?)]);
    Ok(Package::new("delivery").state(deliveries).add::<delivery_date>().add::<each_delivery>())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().package(package()?).build()?;
    let app = Router::new().nest("/eval", server.into_router());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("ws://{}/eval", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, app).into_future());

    let client = Client::connect(url).await?;
    for code in [
        "(await delivery.date({ id: 'o_001' })).getUTCFullYear()",
        "try { await delivery.date({ id: 'o_9' }) } catch (e) { `${e.name} ${e.code} ${e.data.id}` }",
        "const ids = []; await delivery.each({ visit: id => { ids.push(id) } }); ids.join()",
    ] {
        println!("{}", client.eval(code).await?.value);
    }
    Ok(())
}

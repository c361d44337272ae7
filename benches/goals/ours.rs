//! Ours in the role of a contender: the library's server with the one binding that all contenders have.

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use scomp::binding::{BindingLimits, Call, typed};
use scomp::package::Package;
use scomp::protocol::declaration::Declaration;
use scomp::server::Server;
use scomp::transport::{Frame, Outgoing, PairEnd};
use serde_json::json;
use tokio::net::TcpListener;

use crate::server::greet;

/// Serves until killed, with so many idle sessions. Those are in the process, so that they take no file descriptors.
pub(crate) fn serve(idle: usize) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let server = Server::builder().package(package()).build()?;
        let mut sessions = Vec::with_capacity(idle);
        for _ in 0..idle {
            sessions.push(open(&server).await?);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        greet(listener.local_addr()?);
        server.serve(listener).await?;
        drop(sessions);
        Ok(())
    })
}

async fn open(server: &Server) -> Result<PairEnd> {
    let mut session = server.connect();
    let handshake = r#"{"jsonrpc":"2.0","id":0,"method":"handshake","params":{"protocol":"0.1"}}"#;
    session.send(Outgoing::Text(handshake.to_owned())).await?;
    match session.next().await.context("the server is gone")?? {
        Frame::Text(_) => Ok(session),
        other => bail!("unexpected: {other:?}"),
    }
}

/// `lookup(n)`: ready immediately, input and output validated.
fn package() -> Package {
    let declaration = Declaration {
        name: "lookup".to_owned(),
        description: Some("Looks an order up.".to_owned()),
        input: Some(json!({"type": "integer"})),
        output: Some(json!({
            "type": "object",
            "properties": {"id": {"type": "integer"}, "total": {"type": "integer"}},
            "required": ["id", "total"],
        })),
        effects: Vec::new(),
        hints: None,
    };
    let handler = typed(|n: i64, _call: Call| async move { Ok(json!({"id": n, "total": n * 2})) });
    Package::new("bench").with(declaration, BindingLimits::default(), handler)
}

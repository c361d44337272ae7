//! The way onto the thread on which sessions live.
//!
//! Threads that wake each other do so more or less often, as the machine pleases, and every time costs instructions. So
//! the client lives where its session does, and that one thread is counted.

use anyhow::{Context as _, Result};
use futures_util::{SinkExt as _, StreamExt as _};
use scomp::server::Server;
use scomp::transport::{Outgoing, pair};
use tokio::sync::oneshot;

/// Runs an errand on the server's shard, to its end.
pub(crate) async fn run<F>(server: &Server, errand: impl FnOnce() -> F + Send + 'static) -> Result<()>
where
    F: Future<Output = Result<()>> + 'static,
{
    let (done_tx, done_rx) = oneshot::channel();
    let mut begin = Some(move || {
        // The receiver is gone only if this program ends.
        tokio::task::spawn_local(async move { drop(done_tx.send(errand().await)) });
    });
    // A transport is read on the shard, so what looks at its frames runs there: the only frame begins the errand.
    let (ours, mut theirs) = pair(1);
    theirs.send(Outgoing::Ping).await?;
    drop(theirs);
    let transport = ours.inspect(move |_| begin.take().into_iter().for_each(|begin| begin()));
    server.serve_transport(transport).await?;
    done_rx.await.context("the shard is gone")?
}

//! The server as a part of another web server.

use std::sync::{Arc, Weak};
use std::time::Instant;

use super::capacity::Trimmer;
use super::{EXPIRE_EVERY, Server, http};

impl Server {
    /// The routes of the server, to be nested in an [`axum`] application: `/` and `/scomp` for WebSockets, `/console`,
    /// `/healthz`, `/readyz`, `/metrics`, and those of its packages. Must be called within a Tokio runtime, which also
    /// ends expired sessions, as long as a clone of the server or the router lives.
    ///
    /// The gate holds as it does in [`Self::serve`]: without tokens only requests for a loopback `Host` are served. The
    /// application accepts connections, so TLS, time limits for request heads and listen addresses of packages are its
    /// own. A WebSocket goes to a shard when it is upgraded and counts towards `server.connections_max`; past it: 503.
    /// If a script gets that shard stuck, the socket stays open until the shard is back: only sockets that the server
    /// accepted itself can be shut from outside.
    ///
    /// ```
    /// use scomp::axum::Router;
    /// use scomp::client::Client;
    /// use scomp::server::Server;
    /// use tokio::net::TcpListener;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder().build()?;
    /// let app = Router::new().nest("/eval", server.into_router());
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let url = format!("ws://{}/eval/scomp", listener.local_addr()?);
    /// tokio::spawn(scomp::axum::serve(listener, app).into_future());
    ///
    /// let client = Client::connect(url).await?;
    /// assert_eq!(client.eval("6 * 7").await?.value, 42);
    /// # Ok(()) }
    /// ```
    pub fn into_router(self) -> axum::Router {
        let router = http::router(Arc::clone(&self.state));
        let (state, shards) = (Arc::downgrade(&self.state), Arc::downgrade(&self.shards));
        let stop = self.state.stop.clone();
        tokio::spawn(async move {
            let mut expire = tokio::time::interval(EXPIRE_EVERY);
            let mut trimmer = Trimmer::new(Instant::now());
            loop {
                tokio::select! {
                    _ = expire.tick() => {}
                    () = stop.cancelled() => return,
                }
                let (Some(state), Some(shards)) = (Weak::upgrade(&state), Weak::upgrade(&shards)) else {
                    return;
                };
                Self { state, shards }.maintain(&mut trimmer).await;
            }
        });
        router
    }
}

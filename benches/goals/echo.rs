//! The floor under a round trip: an axum server that sends every text back.
//!
//! As anyone would write it, on tokio's many-threaded runtime. Flushing each answer is what `send` does; flushing once
//! per batch is the best that a WebSocket server can do under load, and what ours does.

use anyhow::Result;
use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::routing::any;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::net::TcpListener;

use crate::server::greet;

/// When answers are written to the socket.
#[derive(Clone, Copy)]
pub(crate) enum Flush {
    /// Each at once.
    Each,
    /// All that were ready together.
    Batched,
}

/// Serves until killed.
pub(crate) fn serve(flush: Flush) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        greet(listener.local_addr()?);
        let upgrade = move |upgrade: WebSocketUpgrade| async move {
            upgrade.on_upgrade(move |socket| async move {
                // A client that is gone is the end of an echo, not a failure.
                let _ = match flush {
                    Flush::Each => echo_each(socket).await,
                    Flush::Batched => echo_batched(socket).await,
                };
            })
        };
        let router = Router::new().route("/", any(upgrade));
        Ok(axum::serve(NoDelay(listener), router).await?)
    })
}

/// Without it small answers would wait for the client's acknowledgements.
struct NoDelay(TcpListener);

impl axum::serve::Listener for NoDelay {
    type Io = tokio::net::TcpStream;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, from) = axum::serve::Listener::accept(&mut self.0).await;
        // A failure shows in the figures, and is none of the client's.
        let _ = stream.set_nodelay(true);
        (stream, from)
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

async fn echo_each(mut socket: WebSocket) -> Result<(), axum::Error> {
    while let Some(message) = socket.recv().await {
        if let text @ Message::Text(_) = message? {
            socket.send(text).await?;
        }
    }
    Ok(())
}

async fn echo_batched(mut socket: WebSocket) -> Result<(), axum::Error> {
    while let Some(message) = socket.recv().await {
        let mut next = Some(message);
        while let Some(message) = next {
            if let text @ Message::Text(_) = message? {
                socket.feed(text).await?;
            }
            next = socket.next().now_or_never().flatten();
        }
        socket.flush().await?;
    }
    Ok(())
}

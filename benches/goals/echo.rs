//! The floor under a round trip: an axum server that sends every text back.
//!
//! As anyone would write it, on tokio's many-threaded runtime. Flushing each answer is what `send` does; flushing once
//! per batch is the best that a WebSocket server can do under load, and what ours does. One that evaluates instead of
//! echoing is the least that a server can be that answers an eval: no session, no limits, no answer but a number.

use anyhow::Result;
use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::routing::any;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use rquickjs::{Context, Runtime};
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::server::greet;

/// What comes back, and when it is written to the socket.
#[derive(Clone, Copy)]
pub(crate) enum Echo {
    /// The frame, immediately.
    Each,
    /// All frames that were ready together.
    Batched,
    /// What the code in the frame evaluates to, immediately.
    Evaluated,
}

thread_local! {
    /// Where code is evaluated. Contexts stay on their thread, and one is enough for a client that waits for each answer.
    static CONTEXT: rquickjs::Result<Context> = Runtime::new().and_then(|runtime| Context::full(&runtime));
}

/// Serves until killed.
pub(crate) fn serve(echo: Echo) -> Result<()> {
    let mut builder = match echo {
        Echo::Each | Echo::Batched => tokio::runtime::Builder::new_multi_thread(),
        Echo::Evaluated => tokio::runtime::Builder::new_current_thread(),
    };
    builder.enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        greet(listener.local_addr()?);
        let upgrade = move |upgrade: WebSocketUpgrade| async move {
            upgrade.on_upgrade(move |socket| async move {
                // A client that is gone is the end of an echo, not a failure.
                let _ = match echo {
                    Echo::Each => echo_each(socket).await,
                    Echo::Batched => echo_batched(socket).await,
                    Echo::Evaluated => evaluate_each(socket).await,
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
        // A failure shows in the figures, and is not caused by the client.
        let _ = stream.set_nodelay(true);
        (stream, from)
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

async fn echo_each(mut socket: WebSocket) -> Result<()> {
    while let Some(message) = socket.recv().await {
        if let text @ Message::Text(_) = message? {
            socket.send(text).await?;
        }
    }
    Ok(())
}

async fn echo_batched(mut socket: WebSocket) -> Result<()> {
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

#[derive(Deserialize)]
struct Request<'a> {
    id: u64,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    code: &'a str,
}

async fn evaluate_each(mut socket: WebSocket) -> Result<()> {
    while let Some(message) = socket.recv().await {
        if let Message::Text(text) = message? {
            let Request { id, params } = serde_json::from_str(&text)?;
            let value = evaluate(params.code)?;
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"value":{value}}}}}"#);
            socket.send(Message::Text(answer.into())).await?;
        }
    }
    Ok(())
}

fn evaluate(code: &str) -> Result<i32> {
    CONTEXT.with(|context| match context {
        Ok(context) => Ok(context.with(|ctx| ctx.eval(code))?),
        Err(error) => anyhow::bail!("no context: {error}"),
    })
}

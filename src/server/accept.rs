//! Accepts TCP connections and serves HTTP on them, each on the shard with the least load.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::Server;
use super::capacity::ShardSlot;
use crate::observe;

/// How long the head of an HTTP request may take.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(10);

impl Server {
    pub(super) async fn accept(&self, listener: TcpListener, router: axum::Router) -> io::Result<()> {
        loop {
            tokio::select! {
                () = self.state.stop.cancelled() => return Ok(()),
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) => self.place(stream, from, router.clone()),
                    // Out of file descriptors, or a peer that is gone already: neither ends the server.
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                },
            }
        }
    }

    /// Passes a connection to the shard with the least load.
    fn place(&self, stream: TcpStream, from: SocketAddr, router: axum::Router) {
        let Some(slot) = self.state.connections.admit() else {
            observe::record_refusal("connections");
            return;
        };
        let placed = (|| -> io::Result<()> {
            stream.set_nodelay(true)?;
            let shard = self.shards.least_loaded().ok_or_else(|| io::Error::other("no shard"))?;
            let socket = self.shards.sockets().enter(shard.number(), stream.into_std()?);
            let slot = ShardSlot(Arc::new((shard.weigh(), slot)));
            let (stop, tls) = (self.state.stop.clone(), self.state.tls.read().clone());
            let is_taken = shard.run(move || {
                tokio::task::spawn_local(async move {
                    match (socket.register(), tls) {
                        (Ok(socket), None) => serve_http(socket, router, slot, stop).await,
                        (Ok(socket), Some(tls)) => match tls.accept(socket).await {
                            Ok(stream) => serve_http(stream, router, slot, stop).await,
                            Err(_) => observe::record_refusal("tls"),
                        },
                        (Err(error), _) => tracing::warn!(%error, "a connection was dropped"),
                    }
                });
            });
            if is_taken { Ok(()) } else { Err(io::Error::other("the shard is overloaded")) }
        })();
        if let Err(error) = placed {
            tracing::warn!(%error, %from, "a connection was dropped");
        }
    }
}

async fn serve_http<S>(stream: S, router: axum::Router, slot: ShardSlot, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(slot.clone());
        request
    });
    let service = TowerToHyperService::new(service);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::select! {
        served = connection => if let Err(error) = served {
            tracing::debug!(%error, "a connection ended early");
        },
        () = stop.cancelled() => {}
    }
}

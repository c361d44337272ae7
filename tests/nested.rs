//! A server inside an axum application of its own.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use scomp::axum::routing::get;
use scomp::axum::{self, Router};
use scomp::client::{Client, ClientError};
use scomp::server::Server;
use scomp::server::settings::{ServerSettings, SessionSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Serves the application; returns its address.
async fn serve(server: Server) -> String {
    let app = Router::new().route("/", get(|| async { "app" })).nest("/eval", server.into_router());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(axum::serve(listener, app).into_future());
    address
}

async fn connect(address: &str) -> Result<Client, ClientError> {
    Client::connect(format!("ws://{address}/eval/scomp")).await
}

/// The status line and the body of a page.
async fn page(address: &str, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn nested_server_evaluates_and_keeps_the_session() {
    let server = Server::builder().shards(2).build().unwrap();
    let address = serve(server.clone()).await;
    let client = connect(&address).await.unwrap();
    client.eval("let n = 41").await.unwrap();
    assert_eq!(client.eval("n + 1").await.unwrap().value, 42);
    let root = Client::connect(format!("ws://{address}/eval")).await.unwrap();
    assert_eq!(root.eval("typeof n").await.unwrap().value, "undefined");
    assert_eq!(server.session_count(), 2);
    assert!(page(&address, "/", "localhost").await.ends_with("app"));
    assert!(page(&address, "/eval/healthz", "localhost").await.ends_with("ok\n"));
}

#[tokio::test]
async fn nested_server_checks_host_and_connection_limit() {
    let settings = ServerSettings { connections_max: 1, ..ServerSettings::default() };
    let address = serve(Server::builder().shards(1).settings(settings).build().unwrap()).await;
    assert!(page(&address, "/eval/metrics", "evil.example").await.starts_with("HTTP/1.1 403"));
    let first = connect(&address).await.unwrap();
    let refused = connect(&address).await.unwrap_err();
    assert!(refused.to_string().contains("503"), "{refused}");
    assert_eq!(first.eval("1").await.unwrap().value, 1);
}

#[tokio::test]
async fn nested_server_ends_expired_sessions_and_stops() {
    let sessions = SessionSettings { ttl_ms: 1, ..SessionSettings::default() };
    let server = Server::builder().shards(1).sessions(sessions).build().unwrap();
    let address = serve(server.clone()).await;
    connect(&address).await.unwrap().leave().await;
    let ended = async {
        while server.session_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap();
    let client = connect(&address).await.unwrap();
    server.stop(Duration::ZERO).await;
    assert_eq!(client.closed().await.0, 1001);
}

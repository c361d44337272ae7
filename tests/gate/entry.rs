//! Tokens, origins and hosts at the door; whose session is whose.

use scomp::client::Client;
use scomp::quota::Quotas;
use scomp::server::settings::ServerSettings;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::harness::{UPGRADE, WAIT_MAX, ask, builder, connect, gate, get, start, status};

const HOST: &str = "Host: localhost\r\n";

#[tokio::test]
async fn without_a_good_token_there_is_no_upgrade() {
    let (_server, address) = start(builder().gate(gate(&[("ann", "s3cret")], Quotas::default(), &[]))).await;
    let missing = get(address, "/", &format!("{HOST}{UPGRADE}")).await;
    let wrong = get(address, "/scomp", &format!("{HOST}{UPGRADE}Authorization: Bearer s3cret2\r\n")).await;
    for answer in [&missing, &wrong] {
        assert_eq!(status(answer), "401");
        assert!(answer.to_ascii_lowercase().contains("www-authenticate: bearer"), "{answer}");
    }
    let body = |answer: &str| answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    assert_eq!(body(&missing), body(&wrong));
    let good = get(address, "/", &format!("{HOST}{UPGRADE}authorization: bearer s3cret\r\n")).await;
    assert_eq!(status(&good), "101");
    assert!(connect(address, "s3cret").await.is_ok());
}

#[tokio::test]
async fn token_of_a_browser_is_not_echoed() {
    let (_server, address) = start(builder().gate(gate(&[("ann", "s3cret")], Quotas::default(), &[]))).await;
    // `s3cret` in base64url.
    let offer = "Sec-WebSocket-Protocol: bearer.czNjcmV0, scomp.v0\r\n";
    let answer = get(address, "/", &format!("{HOST}{UPGRADE}{offer}")).await;
    assert_eq!(status(&answer), "101");
    let lower = answer.to_ascii_lowercase();
    assert!(lower.contains("sec-websocket-protocol: scomp.v0\r\n") && !lower.contains("bearer"), "{answer}");
}

#[tokio::test]
async fn pages_come_in_by_the_list_only() {
    let tokens = [("ann", "s3cret")];
    let (_server, address) =
        start(builder().gate(gate(&tokens, Quotas::default(), &["https://app.example"]))).await;
    let with_origin = async |origin: &str| {
        let lines = format!("{HOST}{UPGRADE}Authorization: Bearer s3cret\r\nOrigin: {origin}\r\n");
        status(&get(address, "/", &lines).await).to_owned()
    };
    assert_eq!(with_origin("https://app.example").await, "101");
    assert_eq!(with_origin("http://localhost").await, "101");
    assert_eq!(with_origin("https://evil.example").await, "403");
    assert_eq!(with_origin("null").await, "403");
}

#[tokio::test]
async fn without_tokens_only_names_of_this_machine_are_served() {
    let (_server, address) = start(builder()).await;
    let with_host =
        async |host: &str| status(&get(address, "/", &format!("Host: {host}\r\n{UPGRADE}")).await).to_owned();
    assert_eq!(with_host("localhost:7400").await, "101");
    assert_eq!(with_host(&address.to_string()).await, "101");
    assert_eq!(with_host("rebound.example").await, "403");
}

#[tokio::test]
async fn session_is_its_principals_alone() {
    let tokens = [("ann", "token-a"), ("bob", "token-b")];
    let (_server, address) = start(builder().gate(gate(&tokens, Quotas::default(), &[]))).await;
    let ann = connect(address, "token-a").await.unwrap();
    ann.eval("let kept = 41").await.unwrap();
    let resume = ann.session().resume().unwrap();
    let refusal = async |id: &str| {
        let params = json!({"protocol": "0.1", "session": {"id": id, "token": resume.token}});
        let handshake = json!({"jsonrpc": "2.0", "id": 1, "method": "handshake", "params": params});
        ask(address, "token-b", &handshake).await["error"].clone()
    };
    let foreign = refusal(&resume.id).await;
    assert_eq!(foreign["data"]["kind"], "SessionRefused");
    assert_eq!(foreign, refusal("sess_none").await);
    let again = Client::builder().token("token-a").session(resume).connect(format!("ws://{address}/"));
    let again = again.await.unwrap();
    assert!(again.session().resumed);
    assert_eq!(again.eval("kept + 1").await.unwrap().value, 42);
}

#[tokio::test]
async fn one_connection_too_many_is_closed_unread() {
    let settings = ServerSettings { connections_max: 1, ..ServerSettings::default() };
    let (_server, address) = start(builder().settings(settings)).await;
    let first = Client::connect(format!("ws://{address}/")).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    let mut rest = Vec::new();
    // An end of file or a reset, depending on what was in flight; never an answer.
    let read = tokio::time::timeout(WAIT_MAX, second.read_to_end(&mut rest)).await.unwrap();
    assert!(read.is_err() || rest.is_empty());
    assert_eq!(first.eval("1 + 1").await.unwrap().value, 2);
}

#[tokio::test]
async fn draining_server_is_healthy_but_not_ready() {
    let (server, address) = start(builder()).await;
    assert_eq!(status(&get(address, "/readyz", HOST).await), "200");
    server.drain();
    assert_eq!(status(&get(address, "/readyz", HOST).await), "503");
    assert_eq!(status(&get(address, "/healthz", HOST).await), "200");
    let refused = Client::connect(format!("ws://{address}/")).await.unwrap_err();
    assert_eq!(refused.kind(), "Busy");
}

#[tokio::test]
async fn without_tokens_every_host_of_a_request_is_checked() {
    let (_server, address) = start(builder()).await;
    let two = format!("{HOST}Host: evil.example\r\n");
    assert_ne!(status(&get(address, "/", &format!("{two}{UPGRADE}")).await), "101");
    for path in ["/metrics", "/console/sessions"] {
        assert_eq!(status(&get(address, path, HOST).await), "200", "{path}");
        assert_eq!(status(&get(address, path, &two).await), "403", "{path}");
        for (name, expected) in
            [("localhost", "200"), ("evil.example", "403"), ("localhost@evil.example", "403")]
        {
            let uri = format!("http://{name}{path}");
            assert_eq!(status(&get(address, &uri, HOST).await), expected, "{uri}");
        }
    }
    assert_eq!(status(&get(address, "http://evil.example/scomp", &format!("{HOST}{UPGRADE}")).await), "403");
}

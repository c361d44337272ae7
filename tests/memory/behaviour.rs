//! Behaviour beyond the vectors: durability, hostile input, blobs and names of spaces.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::copy_profile;
use crate::peer::{Identity, Peer, PeerOptions};
use crate::process::Process;
use crate::support::{Folder, Running};

const OPTIONS: PeerOptions = PeerOptions { is_tagged: true, protocol: "memory", signs: true };

fn set(id: &str, value: Value) -> Value {
    json!({"op": "set", "id": id, "value": {"value": value}})
}

fn commit(local_seq: u64, operations: Value) -> Value {
    json!({"commit": {"localSeq": local_seq, "reads": {"confirmed": [], "pending": []}, "operations": operations}})
}

fn root(id: &str, schema: Value) -> Value {
    json!({"query": {"roots": [{"id": id, "selector": {"path": [], "schema": schema}}]}})
}

fn link(id: &str) -> Value {
    json!({"/": {"link@1": {"id": id, "path": []}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_commits_survive_a_kill_and_replay() {
    let folder = copy_profile("signed");
    let owner = Identity::of(&uuid::Uuid::new_v4().to_string());
    let server = Process::start(folder.path());
    let (mut peer, opened) =
        Peer::open_session(&server.url, OPTIONS, &owner, json!({"sessionId": "s"})).await;
    let mut accepted = 0;
    for local_seq in 1..=50 {
        let body = commit(local_seq, json!([set(&format!("of:{local_seq}"), json!(local_seq))]));
        accepted = peer.request("transact", &owner.did, "s", body).await["ok"]["seq"].as_u64().unwrap();
    }
    server.kill();
    let server = Process::start(folder.path());
    let session = json!({"sessionId": "s", "sessionToken": opened["sessionToken"]});
    let (mut peer, opened) = Peer::open_session(&server.url, OPTIONS, &owner, session).await;
    assert_eq!(opened.get("resumed"), None);
    assert_eq!(opened["serverSeq"], json!(accepted));
    let again = commit(50, json!([set("of:50", json!(50))]));
    assert_eq!(peer.request("transact", &owner.did, "s", again).await["ok"]["seq"], json!(accepted));
    let read = peer.request("graph.query", &owner.did, "s", root("of:17", json!(false))).await;
    assert_eq!(read["ok"]["entities"][0]["document"], json!({"value": 17}));
    server.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_during_a_burst_keeps_every_acknowledged_commit() {
    let folder = copy_profile("signed");
    let owner = Identity::of(&uuid::Uuid::new_v4().to_string());
    let server = Process::start(folder.path());
    let (mut peer, _) = Peer::open_session(&server.url, OPTIONS, &owner, json!({"sessionId": "s"})).await;
    for local_seq in 1..=400_u64 {
        let mut message = commit(local_seq, json!([set("of:x", json!(local_seq))]));
        message["type"] = json!("transact");
        message["requestId"] = json!(format!("r{local_seq}"));
        message["space"] = json!(owner.did);
        message["sessionId"] = json!("s");
        peer.send(&message).await;
    }
    let mut answered = 0;
    while answered < 20 {
        answered = peer.response().await["ok"]["seq"].as_u64().unwrap();
    }
    server.kill();
    while let Some(seq) = peer.response().await["ok"]["seq"].as_u64() {
        answered = seq;
    }
    let server = Process::start(folder.path());
    let (mut peer, opened) =
        Peer::open_session(&server.url, OPTIONS, &owner, json!({"sessionId": "s"})).await;
    let kept = opened["serverSeq"].as_u64().unwrap();
    assert!(kept >= answered, "{kept} of {answered}");
    let read = peer.request("graph.query", &owner.did, "s", root("of:x", json!(false))).await;
    assert_eq!(read["ok"]["entities"][0]["document"], json!({"value": kept}));
    server.kill();
}

struct TestServer {
    _folder: Folder,
    running: Running,
    owner: Identity,
    peer: Peer,
}

impl TestServer {
    async fn new() -> Self {
        let folder = copy_profile("signed");
        let running = Running::folder(folder.path()).await;
        let owner = Identity::of(&uuid::Uuid::new_v4().to_string());
        let (peer, _) = Peer::open_session(&running.url, OPTIONS, &owner, json!({"sessionId": "s"})).await;
        Self { _folder: folder, running, owner, peer }
    }

    async fn request(&mut self, kind: &str, body: Value) -> Value {
        self.peer.request(kind, &self.owner.did, "s", body).await
    }

    async fn http(&self, method: reqwest::Method, path: &str, body: String) -> reqwest::Response {
        // The client requires a TLS provider even for plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = self.running.url.replace("ws://", "http://");
        reqwest::Client::new().request(method, format!("{base}{path}")).body(body).send().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_links_and_schemas_get_a_response() {
    let mut server = TestServer::new().await;
    let growing = json!({"/": {"link@1": {"path": ["a", "a"]}}});
    let operations = json!([
        set("of:self", link("of:self")),
        set("of:a", json!({"n": link("of:b")})),
        set("of:b", json!({"n": link("of:a")})),
        set("of:growing", json!({"a": growing})),
        set(
            "of:away",
            json!([link("of:none"), {"/": {"link@1": {"id": "of:a", "path": [], "space": "did:key:zElse"}}}])
        ),
    ]);
    server.request("transact", commit(1, operations)).await;
    for (id, found) in [("of:self", 1), ("of:a", 2), ("of:growing", 1), ("of:away", 1)] {
        let response = server.request("graph.query", root(id, json!(true))).await;
        assert_eq!(response["ok"]["entities"].as_array().map(Vec::len), Some(found), "{id}: {response}");
    }
    let circle =
        json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}});
    assert!(server.request("graph.query", root("of:a", circle)).await.get("ok").is_some());
    let branches: Vec<Value> =
        (0..20_000).map(|number| json!({"properties": {number.to_string(): true}})).collect();
    let huge = server.request("graph.query", root("of:a", json!({"anyOf": branches}))).await;
    assert_eq!(huge["error"]["name"], json!("QueryError"));
    let bad = server.request("graph.query", root("of:a", json!(5))).await;
    assert_eq!(bad["error"]["name"], json!("QueryError"));
    assert!(server.request("session.ack", json!({"seenSeq": 0})).await.get("ok").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_message_fails_and_binary_closes_the_connection() {
    let mut server = TestServer::new().await;
    for text in ["", "fvj1:", "fvj1:[]", "{}", "fvj1:{\"type\":5}", &format!("fvj1:{}", "[".repeat(100_000))]
    {
        server.peer.text(text).await;
        assert_eq!(server.peer.response().await["error"]["name"], json!("InvalidMessageError"), "{text:.20}");
    }
    assert!(server.request("session.ack", json!({"seenSeq": 0})).await.get("ok").is_some());
    server.peer.binary(vec![1, 2, 3]).await;
    assert_eq!(server.peer.response().await, Value::Null);
    assert_eq!(server.peer.closed, Some(1003));
}

#[tokio::test(flavor = "multi_thread")]
async fn space_name_never_leads_out_of_the_store() {
    let folder = copy_profile("trusted");
    let running = Running::folder(folder.path()).await;
    let options = PeerOptions { signs: false, ..OPTIONS };
    let mut peer = Peer::open(&running.url, options).await;
    peer.send(&json!({"type": "hello", "protocol": "memory", "flags": {}})).await;
    peer.response().await;
    for space in ["../x", "..", ".", "", "a/b", "a\\b", "a\u{0}b"] {
        peer.send(&json!({"type": "session.open", "requestId": "o", "space": space, "session": {}})).await;
        assert_eq!(peer.response().await["error"]["name"], json!("ProtocolError"), "{space:?}");
    }
    peer.send(&json!({"type": "session.open", "requestId": "o", "space": "a b:c", "session": {}})).await;
    let opened = peer.response().await;
    let file = folder.path().join("memory/state/engine-v3/a%20b%3Ac.sqlite");
    // The file is created by the first commit, not by `session.open`.
    assert!(!file.exists());
    let session = opened["ok"]["sessionId"].as_str().unwrap();
    peer.request("transact", "a b:c", session, commit(1, json!([set("of:x", json!(1))]))).await;
    assert!(file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn challenge_is_valid_for_one_open() {
    let mut server = TestServer::new().await;
    let mut open =
        json!({"type": "session.open", "requestId": "o", "space": server.owner.did, "session": {}});
    server.peer.sign(&mut open, &json!({}), &server.owner);
    server.peer.send(&open).await;
    assert!(server.peer.response().await.get("ok").is_some());
    server.peer.send(&open).await;
    let again = server.peer.response().await;
    assert_eq!(
        (&again["error"]["name"], &again["error"]["retriable"]),
        (&json!("AuthorizationError"), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_named_by_their_content_and_queryable() {
    let mut server = TestServer::new().await;
    let space = server.owner.did.clone();
    let body = r#"fvj1:{"body":{"/Bytes@1":"AAEC"},"type":"image/gif"}"#;
    let stored = server.http(reqwest::Method::POST, &format!("{space}/blobs/pic.gif"), body.to_owned()).await;
    assert_eq!(stored.status(), 201);
    let stored: Value = stored.json().await.unwrap();
    let (id, url) = (stored["id"].as_str().unwrap(), stored["url"].as_str().unwrap());
    assert_eq!(url, format!("blobs/{}.gif", id.trim_start_matches("fid1:")));
    let found = server.http(reqwest::Method::GET, &format!("{space}/{url}"), String::new()).await;
    assert_eq!(found.headers()["content-type"], "image/gif");
    assert!(found.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    assert_eq!(found.bytes().await.unwrap().as_ref(), [0, 1, 2]);
    let again = server.http(reqwest::Method::POST, &format!("{space}/blobs"), body.to_owned()).await;
    assert_eq!(again.json::<Value>().await.unwrap()["id"], stored["id"]);
    let document = server.request("graph.query", root(&format!("cid:{id}"), json!(false))).await;
    assert_eq!(document["ok"]["entities"][0]["document"]["value"]["type"], json!("image/gif"));
    assert_eq!(document["ok"]["serverSeq"], json!(1));
}

/// Starts an upload without sending its body.
async fn stalled_upload(url: &str, space: &str) -> TcpStream {
    let host = url.trim_start_matches("ws://").trim_end_matches('/');
    let mut socket = TcpStream::connect(host).await.unwrap();
    let head = format!("POST /{space}/blobs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_past_the_concurrency_limit_are_rejected() {
    const HTTP_BODIES_MAX: usize = 32;
    let server = TestServer::new().await;
    let space = server.owner.did.clone();
    let upload = async || {
        let junk = server.http(reqwest::Method::POST, &format!("{space}/blobs"), "junk".to_owned()).await;
        junk.status().as_u16()
    };
    let mut stalled = Vec::new();
    for _ in 1..HTTP_BODIES_MAX {
        stalled.push(stalled_upload(&server.running.url, &space).await);
    }
    // One slot is free, however many of the others have arrived.
    assert_eq!(upload().await, 400);
    stalled.push(stalled_upload(&server.running.url, &space).await);
    // Until the last upload has arrived, a slot is free.
    while upload().await != 503 {}
    drop(stalled);
    while upload().await != 400 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_upload_is_rejected_and_download_creates_no_space() {
    let server = TestServer::new().await;
    let space = server.owner.did.clone();
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    let status = async |method: &reqwest::Method, path: String, body: String| {
        server.http(method.clone(), &path, body).await.status().as_u16()
    };
    assert_eq!(status(&post, "nowhere/blobs".to_owned(), String::new()).await, 400);
    assert_eq!(status(&post, format!("{space}/blobs"), "junk".to_owned()).await, 400);
    assert_eq!(status(&post, format!("{space}/blobs"), " ".repeat((10 << 20) + 1)).await, 413);
    assert_eq!(status(&post, format!("{space}/blobs"), " ".repeat(10 << 20)).await, 400);
    assert_eq!(status(&get, format!("{space}/blobs/.gif"), String::new()).await, 400);
    assert_eq!(status(&get, "did:key:zAbsent/blobs/abc".to_owned(), String::new()).await, 404);
    assert!(!server._folder.path().join("memory/state/engine-v3/did%3Akey%3AzAbsent.sqlite").exists());
    let page = r#"fvj1:{"body":{"/Bytes@1":"AAEC"},"type":"text/html"}"#;
    let stored: Value =
        server.http(post, &format!("{space}/blobs"), page.to_owned()).await.json().await.unwrap();
    let found =
        server.http(get, &format!("{space}/{}", stored["url"].as_str().unwrap()), String::new()).await;
    assert_eq!(found.headers()["content-type"], "application/octet-stream");
}

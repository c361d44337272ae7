//! What the endpoint promises beyond the vectors: durability, limits, blobs, names.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::peer::{Identity, Manner, Peer};
use crate::process::Process;
use crate::profile;
use crate::support::{Folder, Running};

const MANNER: Manner = Manner { is_tagged: true, protocol: "memory", signs: true };

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
async fn what_was_accepted_survives_a_kill_and_is_known_when_it_is_sent_again() {
    let folder = profile("signed");
    let owner = Identity::of(&uuid::Uuid::new_v4().to_string());
    let server = Process::start(folder.path());
    let (mut peer, opened) = Peer::live(&server.url, MANNER, &owner, json!({"sessionId": "s"})).await;
    let mut accepted = 0;
    for local_seq in 1..=50 {
        let body = commit(local_seq, json!([set(&format!("of:{local_seq}"), json!(local_seq))]));
        accepted = peer.request("transact", &owner.did, "s", body).await["ok"]["seq"].as_u64().unwrap();
    }
    server.kill();
    let server = Process::start(folder.path());
    let session = json!({"sessionId": "s", "sessionToken": opened["sessionToken"]});
    let (mut peer, opened) = Peer::live(&server.url, MANNER, &owner, session).await;
    assert_eq!(opened.get("resumed"), None);
    assert_eq!(opened["serverSeq"], json!(accepted));
    let again = commit(50, json!([set("of:50", json!(50))]));
    assert_eq!(peer.request("transact", &owner.did, "s", again).await["ok"]["seq"], json!(accepted));
    let read = peer.request("graph.query", &owner.did, "s", root("of:17", json!(false))).await;
    assert_eq!(read["ok"]["entities"][0]["document"], json!({"value": 17}));
    server.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_a_burst_loses_nothing_that_was_answered() {
    let folder = profile("signed");
    let owner = Identity::of(&uuid::Uuid::new_v4().to_string());
    let server = Process::start(folder.path());
    let (mut peer, _) = Peer::live(&server.url, MANNER, &owner, json!({"sessionId": "s"})).await;
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
    let (mut peer, opened) = Peer::live(&server.url, MANNER, &owner, json!({"sessionId": "s"})).await;
    let kept = opened["serverSeq"].as_u64().unwrap();
    assert!(kept >= answered, "{kept} of {answered}");
    let read = peer.request("graph.query", &owner.did, "s", root("of:x", json!(false))).await;
    assert_eq!(read["ok"]["entities"][0]["document"], json!({"value": kept}));
    server.kill();
}

struct Hall {
    _folder: Folder,
    running: Running,
    owner: Identity,
    peer: Peer,
}

impl Hall {
    async fn new() -> Self {
        let folder = profile("signed");
        let running = Running::folder(folder.path()).await;
        let owner = Identity::of(&uuid::Uuid::new_v4().to_string());
        let (peer, _) = Peer::live(&running.url, MANNER, &owner, json!({"sessionId": "s"})).await;
        Self { _folder: folder, running, owner, peer }
    }

    async fn ask(&mut self, kind: &str, body: Value) -> Value {
        self.peer.request(kind, &self.owner.did, "s", body).await
    }

    async fn http(&self, method: reqwest::Method, path: &str, body: String) -> reqwest::Response {
        // Plain HTTP, but the client wants to know how it would encrypt.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = self.running.url.replace("ws://", "http://");
        reqwest::Client::new().request(method, format!("{base}{path}")).body(body).send().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_links_and_schemas_end_in_an_answer() {
    let mut hall = Hall::new().await;
    let grown = json!({"/": {"link@1": {"path": ["a", "a"]}}});
    let operations = json!([
        set("of:self", link("of:self")),
        set("of:a", json!({"n": link("of:b")})),
        set("of:b", json!({"n": link("of:a")})),
        set("of:grown", json!({"a": grown})),
        set(
            "of:away",
            json!([link("of:none"), {"/": {"link@1": {"id": "of:a", "path": [], "space": "did:key:zElse"}}}])
        ),
    ]);
    hall.ask("transact", commit(1, operations)).await;
    for (id, found) in [("of:self", 1), ("of:a", 2), ("of:grown", 1), ("of:away", 1)] {
        let answer = hall.ask("graph.query", root(id, json!(true))).await;
        assert_eq!(answer["ok"]["entities"].as_array().map(Vec::len), Some(found), "{id}: {answer}");
    }
    let circle =
        json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}});
    assert!(hall.ask("graph.query", root("of:a", circle)).await.get("ok").is_some());
    let branches: Vec<Value> =
        (0..20_000).map(|number| json!({"properties": {number.to_string(): true}})).collect();
    let huge = hall.ask("graph.query", root("of:a", json!({"anyOf": branches}))).await;
    assert_eq!(huge["error"]["name"], json!("QueryError"));
    let bad = hall.ask("graph.query", root("of:a", json!(5))).await;
    assert_eq!(bad["error"]["name"], json!("QueryError"));
    assert!(hall.ask("session.ack", json!({"seenSeq": 0})).await.get("ok").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_none_are_told_so_and_a_binary_one_ends_the_connection() {
    let mut hall = Hall::new().await;
    for text in ["", "fvj1:", "fvj1:[]", "{}", "fvj1:{\"type\":5}", &format!("fvj1:{}", "[".repeat(100_000))]
    {
        hall.peer.text(text).await;
        assert_eq!(hall.peer.response().await["error"]["name"], json!("InvalidMessageError"), "{text:.20}");
    }
    assert!(hall.ask("session.ack", json!({"seenSeq": 0})).await.get("ok").is_some());
    hall.peer.binary(vec![1, 2, 3]).await;
    assert_eq!(hall.peer.response().await, Value::Null);
    assert_eq!(hall.peer.closed, Some(1003));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_never_becomes_a_path_outside_of_the_store() {
    let folder = profile("trusted");
    let running = Running::folder(folder.path()).await;
    let manner = Manner { signs: false, ..MANNER };
    let mut peer = Peer::open(&running.url, manner).await;
    peer.send(&json!({"type": "hello", "protocol": "memory", "flags": {}})).await;
    peer.response().await;
    for space in ["../x", "..", ".", "", "a/b", "a\\b", "a\u{0}b"] {
        peer.send(&json!({"type": "session.open", "requestId": "o", "space": space, "session": {}})).await;
        assert_eq!(peer.response().await["error"]["name"], json!("ProtocolError"), "{space:?}");
    }
    peer.send(&json!({"type": "session.open", "requestId": "o", "space": "a b:c", "session": {}})).await;
    let opened = peer.response().await;
    let file = folder.path().join("memory/state/engine-v3/a%20b%3Ac.sqlite");
    // An opening makes no file, a commit does.
    assert!(!file.exists());
    let session = opened["ok"]["sessionId"].as_str().unwrap();
    peer.request("transact", "a b:c", session, commit(1, json!([set("of:x", json!(1))]))).await;
    assert!(file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_is_good_for_one_opening() {
    let mut hall = Hall::new().await;
    let mut open = json!({"type": "session.open", "requestId": "o", "space": hall.owner.did, "session": {}});
    hall.peer.sign(&mut open, &json!({}), &hall.owner);
    hall.peer.send(&open).await;
    assert!(hall.peer.response().await.get("ok").is_some());
    hall.peer.send(&open).await;
    let again = hall.peer.response().await;
    assert_eq!(
        (&again["error"]["name"], &again["error"]["retriable"]),
        (&json!("AuthorizationError"), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_named_by_their_content_and_told_to_watchers() {
    let mut hall = Hall::new().await;
    let space = hall.owner.did.clone();
    let body = r#"fvj1:{"body":{"/Bytes@1":"AAEC"},"type":"image/gif"}"#;
    let stored = hall.http(reqwest::Method::POST, &format!("{space}/blobs/pic.gif"), body.to_owned()).await;
    assert_eq!(stored.status(), 201);
    let told: Value = stored.json().await.unwrap();
    let (id, url) = (told["id"].as_str().unwrap(), told["url"].as_str().unwrap());
    assert_eq!(url, format!("blobs/{}.gif", id.trim_start_matches("fid1:")));
    let found = hall.http(reqwest::Method::GET, &format!("{space}/{url}"), String::new()).await;
    assert_eq!(found.headers()["content-type"], "image/gif");
    assert!(found.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    assert_eq!(found.bytes().await.unwrap().as_ref(), [0, 1, 2]);
    let again = hall.http(reqwest::Method::POST, &format!("{space}/blobs"), body.to_owned()).await;
    assert_eq!(again.json::<Value>().await.unwrap()["id"], told["id"]);
    let document = hall.ask("graph.query", root(&format!("cid:{id}"), json!(false))).await;
    assert_eq!(document["ok"]["entities"][0]["document"]["value"]["type"], json!("image/gif"));
    assert_eq!(document["ok"]["serverSeq"], json!(1));
}

/// Starts an upload whose body does not come.
async fn stalled_upload(url: &str, space: &str) -> TcpStream {
    let host = url.trim_start_matches("ws://").trim_end_matches('/');
    let mut socket = TcpStream::connect(host).await.unwrap();
    let head = format!("POST /{space}/blobs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_past_the_number_served_at_a_time_are_refused() {
    const HTTP_BODIES_MAX: usize = 32;
    let hall = Hall::new().await;
    let space = hall.owner.did.clone();
    let upload = async || {
        let junk = hall.http(reqwest::Method::POST, &format!("{space}/blobs"), "junk".to_owned()).await;
        junk.status().as_u16()
    };
    let mut stalled = Vec::new();
    for _ in 1..HTTP_BODIES_MAX {
        stalled.push(stalled_upload(&hall.running.url, &space).await);
    }
    // One place is left, however many of the others have arrived.
    assert_eq!(upload().await, 400);
    stalled.push(stalled_upload(&hall.running.url, &space).await);
    // The last one is on its way; until it has arrived there is still a place.
    while upload().await != 503 {}
    drop(stalled);
    while upload().await != 400 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_are_none_are_refused_and_downloads_make_no_spaces() {
    let hall = Hall::new().await;
    let space = hall.owner.did.clone();
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    let status = async |method: &reqwest::Method, path: String, body: String| {
        hall.http(method.clone(), &path, body).await.status().as_u16()
    };
    assert_eq!(status(&post, "nowhere/blobs".to_owned(), String::new()).await, 400);
    assert_eq!(status(&post, format!("{space}/blobs"), "junk".to_owned()).await, 400);
    assert_eq!(status(&post, format!("{space}/blobs"), " ".repeat((10 << 20) + 1)).await, 413);
    assert_eq!(status(&post, format!("{space}/blobs"), " ".repeat(10 << 20)).await, 400);
    assert_eq!(status(&get, format!("{space}/blobs/.gif"), String::new()).await, 400);
    assert_eq!(status(&get, "did:key:zNobody/blobs/abc".to_owned(), String::new()).await, 404);
    assert!(!hall._folder.path().join("memory/state/engine-v3/did%3Akey%3AzNobody.sqlite").exists());
    let page = r#"fvj1:{"body":{"/Bytes@1":"AAEC"},"type":"text/html"}"#;
    let told: Value = hall.http(post, &format!("{space}/blobs"), page.to_owned()).await.json().await.unwrap();
    let found = hall.http(get, &format!("{space}/{}", told["url"].as_str().unwrap()), String::new()).await;
    assert_eq!(found.headers()["content-type"], "application/octet-stream");
}

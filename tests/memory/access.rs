//! Access to spaces: tokens of the server, identities and their spaces, principals and their
//! policies.

use std::path::Path;

use scomp::binding::Policy;
use scomp::client::Client;
use scomp::observe::audit::Audit;
use scomp::quota::Quotas;
use scomp::server::Gate;
use scomp::server::settings::{AuthSettings, OriginSettings, TokenSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::peer::{Identity, Peer, PeerOptions};
use crate::support::{Folder, Running};

const OPTIONS: PeerOptions = PeerOptions { is_tagged: true, protocol: "memory", signs: true };

const UPGRADE: &str = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

const BLOB: &str = r#"fvj1:{"body":{"/Bytes@1":"AAEC"},"type":"image/gif"}"#;

fn folder(config: Value) -> Folder {
    let mut config = config;
    config["store"] = json!("state");
    let declaration = json!({"package": "memory", "rust": "memory", "config": config});
    Folder::with(&[("memory/declaration.json", &declaration.to_string())])
}

/// `ann` and `bob` may do everything, `rita` may only read, `walt` may read and write.
fn gate() -> Gate {
    let may = |effects: &[&str]| Policy {
        allow: Some(effects.iter().map(|effect| (*effect).to_owned()).collect()),
        ..Policy::default()
    };
    let token = |name: &str, policy| TokenSettings {
        policy,
        ..TokenSettings::of_token(name, &format!("{name}-token"))
    };
    let tokens = vec![
        token("ann", Policy::default()),
        token("bob", Policy::default()),
        token("rita", may(&["read"])),
        token("walt", may(&["read", "write"])),
    ];
    let auth = AuthSettings { tokens, file: None };
    Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap()
}

async fn start_with_tokens(folder: &Folder) -> Running {
    let audit = Audit::open(&folder.path().join("audit.log"), 1 << 20, 1).unwrap();
    Running::folder_and(folder.path(), |builder| builder.gate(gate()).audit(audit)).await
}

async fn client(running: &Running, principal: &str) -> Client {
    Client::builder().token(format!("{principal}-token")).connect(running.url.clone()).await.unwrap()
}

async fn eval(client: &Client, code: &str) -> Value {
    client.eval(code).await.unwrap_or_else(|error| panic!("{error}\n{code}")).value
}

fn identity() -> Identity {
    Identity::of(&uuid::Uuid::new_v4().to_string())
}

fn set(local_seq: u64, id: &str, value: Value) -> Value {
    let operations = json!([{"op": "set", "id": id, "value": {"value": value}}]);
    json!({"commit": {"localSeq": local_seq, "reads": {"confirmed": [], "pending": []}, "operations": operations}})
}

fn read(id: &str) -> Value {
    json!({"query": {"roots": [{"id": id, "selector": {"path": [], "schema": false}}]}})
}

/// Sends a raw HTTP request and returns the status.
async fn status(running: &Running, method: &str, path: &str, lines: &str, body: &str) -> u16 {
    let address = running.url.trim_start_matches("ws://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).await.unwrap();
    let host = if lines.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\n{host}{lines}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n") && stream.read_buf(&mut answer).await.unwrap() > 0 {
        if answer.len() > 12 {
            break;
        }
    }
    String::from_utf8_lossy(&answer)[9..12].parse().unwrap()
}

fn token(principal: &str) -> String {
    format!("Authorization: Bearer {principal}-token\r\n")
}

fn spaces(folder: &Folder) -> Vec<String> {
    fn files(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                files(&entry.path(), found);
            } else if entry.path().extension().is_some_and(|extension| extension == "sqlite") {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    let mut found = Vec::new();
    files(&folder.path().join("memory/state"), &mut found);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_without_the_servers_token_is_rejected() {
    let folder = folder(json!({}));
    let running = start_with_tokens(&folder).await;
    for path in ["/memory", "/api/storage/memory", "/api/storage/memory?space=did:key:z6Mk"] {
        assert_eq!(status(&running, "GET", path, UPGRADE, "").await, 401, "{path}");
        let wrong = format!("{UPGRADE}Authorization: Bearer other\r\n");
        assert_eq!(status(&running, "GET", path, &wrong, "").await, 401, "{path}");
        let right = format!("{UPGRADE}{}", token("ann"));
        assert_eq!(status(&running, "GET", path, &right, "").await, 101, "{path}");
    }
    for method in ["GET", "POST"] {
        assert_eq!(status(&running, method, "/did:key:zX/blobs/x", "", BLOB).await, 401, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_host_is_rejected_on_a_server_without_tokens() {
    for config in [json!({}), json!({"gate": "signature"})] {
        let folder = folder(config);
        let running = Running::folder(folder.path()).await;
        for path in ["/memory", "/api/storage/memory"] {
            let foreign = format!("Host: evil.example:7400\r\n{UPGRADE}");
            assert_eq!(status(&running, "GET", path, &foreign, "").await, 403, "{path}");
            assert_eq!(status(&running, "GET", path, UPGRADE, "").await, 101, "{path}");
        }
        let foreign = "Host: evil.example:7400\r\n";
        assert_eq!(status(&running, "POST", "/did:key:zX/blobs", foreign, BLOB).await, 403);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signature_gate_needs_no_token_but_blobs_do() {
    let folder = folder(json!({"gate": "signature"}));
    let running = start_with_tokens(&folder).await;
    let owner = identity();
    let (mut peer, _) = Peer::open_session(&running.url, OPTIONS, &owner, json!({"sessionId": "s"})).await;
    assert_eq!(
        peer.request("transact", &owner.did, "s", set(1, "of:x", json!(1))).await["ok"]["seq"],
        json!(1)
    );
    let other = identity();
    assert_eq!(peer.open_as(&owner, &other.did, "t").await["error"]["name"], json!("AuthorizationError"));
    assert_eq!(status(&running, "POST", &format!("/{}/blobs", owner.did), "", BLOB).await, 401);
}

#[tokio::test]
async fn settings_that_check_nothing_are_rejected() {
    for config in [
        json!({"gate": "signature", "authentication": "trusted"}),
        json!({"gate": "none"}),
        json!({"access": {"team": {}}}),
        json!({"access": {"did:key:zX": {"read": [""]}}}),
    ] {
        let folder = folder(config.clone());
        let environment = scomp::package::loader::environment();
        let loaded =
            scomp::package::loader::load(folder.path(), &environment, scomp::bindings::BUILT_IN).await;
        assert!(loaded.is_err(), "{config}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn space_named_after_an_identity_admits_only_that_identity() {
    let folder = folder(json!({}));
    let running = start_with_tokens(&folder).await;
    let (owner, stranger) = (identity(), identity());
    let mut peer = Peer::with_token(&running.url, OPTIONS, "ann-token").await;
    // Another key cannot open the space even before it exists.
    let mut other_peer = Peer::with_token(&running.url, OPTIONS, "bob-token").await;
    let response = other_peer.open_as(&stranger, &owner.did, "s").await;
    assert_eq!(response["error"]["name"], json!("AuthorizationError"));
    assert!(peer.open_as(&owner, &owner.did, "s").await.get("ok").is_some());
    peer.request("transact", &owner.did, "s", set(1, "of:x", json!("mine"))).await;
    let response = other_peer.open_as(&stranger, &owner.did, "s").await;
    assert_eq!(response["error"]["name"], json!("AuthorizationError"));
    let response = other_peer.request("transact", &owner.did, "s", set(1, "of:x", json!("stolen"))).await;
    assert_eq!(response["error"]["name"], json!("SessionError"));
    let kept = peer.request("graph.query", &owner.did, "s", read("of:x")).await;
    assert_eq!(kept["ok"]["entities"][0]["document"]["value"], json!("mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn named_space_belongs_to_the_identity_that_first_wrote() {
    let folder = folder(json!({}));
    let (creator, stranger) = (identity(), identity());
    {
        let running = start_with_tokens(&folder).await;
        let mut first = Peer::with_token(&running.url, OPTIONS, "ann-token").await;
        let mut second = Peer::with_token(&running.url, OPTIONS, "bob-token").await;
        // The space is empty, so both may open it.
        assert!(first.open_as(&creator, "team", "a").await.get("ok").is_some());
        assert!(second.open_as(&stranger, "team", "b").await.get("ok").is_some());
        first.request("transact", "team", "a", set(1, "of:x", json!(1))).await;
        let revoked = second.event().await;
        assert_eq!(
            (&revoked["type"], &revoked["reason"]),
            (&json!("session/revoked"), &json!("unauthorized"))
        );
        for (kind, body) in [("graph.query", read("of:x")), ("transact", set(1, "of:x", json!(2)))] {
            let response = second.request(kind, "team", "b", body).await;
            assert_eq!(response["error"]["name"], json!("SessionError"), "{kind}");
        }
        let response = second.open_as(&stranger, "team", "c").await;
        assert_eq!(response["error"]["name"], json!("AuthorizationError"));
    }
    // The file records the owner.
    let running = start_with_tokens(&folder).await;
    let mut peer = Peer::with_token(&running.url, OPTIONS, "bob-token").await;
    assert_eq!(peer.open_as(&stranger, "team", "b").await["error"]["name"], json!("AuthorizationError"));
    assert!(peer.open_as(&creator, "team", "a").await.get("ok").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn access_lists_open_a_space_to_others() {
    let (owner, reader, stranger) = (identity(), identity(), identity());
    let folder = folder(json!({"access": {&owner.did: {"read": [reader.did]}}}));
    let running = start_with_tokens(&folder).await;
    let mut peer = Peer::with_token(&running.url, OPTIONS, "ann-token").await;
    assert!(peer.open_as(&owner, &owner.did, "o").await.get("ok").is_some());
    peer.request("transact", &owner.did, "o", set(1, "of:x", json!(1))).await;
    assert!(peer.open_as(&reader, &owner.did, "r").await.get("ok").is_some());
    let found = peer.request("graph.query", &owner.did, "r", read("of:x")).await;
    assert_eq!(found["ok"]["entities"][0]["document"]["value"], json!(1));
    let response = peer.request("transact", &owner.did, "r", set(1, "of:x", json!(2))).await;
    assert_eq!(response["error"]["name"], json!("AuthorizationError"));
    assert_eq!(peer.open_as(&stranger, &owner.did, "s").await["error"]["name"], json!("AuthorizationError"));
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_of_two_principals_have_spaces_of_their_own() {
    let folder = folder(json!({}));
    let running = start_with_tokens(&folder).await;
    let (ann, bob) = (client(&running, "ann").await, client(&running, "bob").await);
    for space in ["team", "did:key:zNoKey"] {
        let code = |rest: &str| format!("const at = {{ space: '{space}', id: 'of:x' }}; {rest}");
        eval(&ann, &code("await memory.set({ ...at, value: 'of ann' })")).await;
        let seen = eval(&bob, &code("(await memory.read(at)).exists")).await;
        assert_eq!(seen, json!(false), "{space}");
        eval(&bob, &code("await memory.set({ ...at, value: 'of bob' })")).await;
        assert_eq!(eval(&ann, &code("(await memory.read(at)).value")).await, json!("of ann"), "{space}");
        // The space cannot be reached over the wire by any name either.
        let mut peer = Peer::with_token(&running.url, OPTIONS, "bob-token").await;
        let key = identity();
        for name in ["ann/team", "ann%2Fteam", "principals/ann/team"] {
            let opened = peer.open_as(&key, name, name).await;
            if opened.get("ok").is_some() {
                let found = peer.request("graph.query", name, name, read("of:x")).await;
                assert_eq!(found["ok"]["entities"][0]["document"], Value::Null, "{name}");
            }
        }
    }
    // The space of another principal's identity is rejected.
    let identity = eval(&ann, "(await memory.open({ space: 'team' })).identity").await;
    let code =
        format!("await memory.open({{ space: {identity} }}).then(() => 'open', (error) => error.name)");
    assert_eq!(eval(&ann, &code).await, json!("open"));
    assert_eq!(eval(&bob, &code).await, json!("AuthorizationError"));
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_spaces_are_shared_by_scripts_and_clients() {
    let folder = folder(json!({"access": {"team": {"read": ["*"], "write": ["ann"]}}}));
    let running = start_with_tokens(&folder).await;
    let (ann, bob) = (client(&running, "ann").await, client(&running, "bob").await);
    eval(&ann, "await memory.set({ space: 'team', id: 'of:x', value: 1 })").await;
    let seen = eval(&bob, "(await memory.read({ space: 'team', id: 'of:x' })).value").await;
    assert_eq!(seen, json!(1));
    let write =
        "await memory.set({ space: 'team', id: 'of:x', value: 2 }).then(() => 'set', (error) => error.name)";
    assert_eq!(eval(&bob, write).await, json!("AuthorizationError"));
    let mut peer = Peer::with_token(&running.url, OPTIONS, "bob-token").await;
    assert!(peer.open_as(&identity(), "team", "s").await.get("ok").is_some());
    let found = peer.request("graph.query", "team", "s", read("of:x")).await;
    assert_eq!(found["ok"]["entities"][0]["document"]["value"], json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn principal_with_read_effect_creates_no_files() {
    let folder = folder(json!({"access": {"*": {"read": ["*"], "write": ["*"]}}}));
    let running = start_with_tokens(&folder).await;
    let rita = client(&running, "rita").await;
    let watch = "[{ id: 'w', kind: 'graph', query: { roots: [{ id: 'of:x', selector: { path: [], schema: true } }] } }]";
    for code in [
        "await memory.open({ space: 'a' })".to_owned(),
        "await memory.read({ space: 'b', id: 'of:x' })".to_owned(),
        "await memory.query({ space: 'c', roots: [{ id: 'of:x', selector: { path: [] } }] })".to_owned(),
        format!("await memory.watch({{ space: 'd', watches: {watch}, onSync: () => {{}} }})"),
    ] {
        eval(&rita, &code).await;
    }
    let write =
        "await memory.set({ space: 'e', id: 'of:x', value: 1 }).then(() => 'set', (error) => error.name)";
    assert_eq!(eval(&rita, write).await, json!("PermissionDenied"));
    let space = identity();
    let blobs = format!("/{}/blobs", space.did);
    assert_eq!(status(&running, "POST", &blobs, &token("rita"), BLOB).await, 403);
    let mut peer = Peer::with_token(&running.url, OPTIONS, "rita-token").await;
    assert!(peer.open_as(&space, &space.did, "s").await.get("ok").is_some());
    let response = peer.request("transact", &space.did, "s", set(1, "of:x", json!(1))).await;
    assert_eq!(response["error"]["name"], json!("AuthorizationError"));
    let found = peer.request("graph.query", &space.did, "s", read("of:x")).await;
    assert!(found.get("ok").is_some(), "{found}");
    assert_eq!(spaces(&folder), Vec::<String>::new());
    assert_eq!(status(&running, "POST", &blobs, &token("walt"), BLOB).await, 201);
    assert_eq!(spaces(&folder).len(), 1);
    let mut writer = Peer::with_token(&running.url, OPTIONS, "walt-token").await;
    assert!(writer.open_as(&space, &space.did, "w").await.get("ok").is_some());
    writer.request("transact", &space.did, "w", set(1, "of:x", json!(1))).await;
    running.server.stop(std::time::Duration::ZERO).await;
    let log = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_logged = |principal: &str, decision: &str, session: &str| {
        lines.iter().any(|line| {
            line["binding"] == "memory.transact"
                && line["principal"] == principal
                && line["decision"] == decision
                && line["session"] == session
                && line["effects"] == json!(["write"])
        })
    };
    assert!(is_logged("rita", "deny", "http") && is_logged("rita", "deny", "s"), "{log}");
    assert!(is_logged("walt", "allow", "http") && is_logged("walt", "allow", "w"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_follow_the_access_rules_of_their_space() {
    let owner = identity();
    let folder = folder(json!({"access": {&owner.did: {"read": ["bob"], "write": ["ann"]}}}));
    let running = start_with_tokens(&folder).await;
    let blobs = format!("/{}/blobs", owner.did);
    assert_eq!(status(&running, "POST", &blobs, &token("bob"), BLOB).await, 403);
    assert_eq!(status(&running, "POST", &blobs, &token("ann"), BLOB).await, 201);
    assert_eq!(status(&running, "POST", "/did:key:zX%2Fteam/blobs", &token("ann"), BLOB).await, 400);
    let absent = format!("{blobs}/absent");
    assert_eq!(status(&running, "GET", &absent, &token("bob"), "").await, 404);
    assert_eq!(status(&running, "GET", &absent, &token("walt"), "").await, 403);
    let other = format!("/{}/blobs", identity().did);
    assert_eq!(status(&running, "POST", &other, &token("ann"), BLOB).await, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_a_peer_need_the_effect_external() {
    let folder = folder(json!({"peers": {"other": {"url": "ws://127.0.0.1:9/memory"}}}));
    let running = start_with_tokens(&folder).await;
    let (ann, walt) = (client(&running, "ann").await, client(&running, "walt").await);
    for call in [
        "memory.open({ space: 's', peer: 'other' })",
        "memory.read({ space: 's', id: 'of:x', peer: 'other' })",
        "memory.set({ space: 's', id: 'of:x', value: 1, peer: 'other' })",
        "memory.update({ space: 's', id: 'of:x', fn: () => 1, peer: 'other' })",
    ] {
        let code = format!("await {call}.then(() => 'done', (error) => error.name)");
        assert_eq!(eval(&walt, &code).await, json!("PermissionDenied"), "{call}");
        assert_eq!(eval(&ann, &code).await, json!("ConnectionError"), "{call}");
    }
    eval(&walt, "await memory.set({ space: 's', id: 'of:x', value: 1 })").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_open_does_not_invalidate_the_next_challenge() {
    let folder = folder(json!({"authentication": "strict"}));
    let running = start_with_tokens(&folder).await;
    let (ann, bob) = (client(&running, "ann").await, client(&running, "bob").await);
    let identity = eval(&ann, "(await memory.open({ space: 'team' })).identity").await;
    let open =
        format!("await memory.open({{ space: {identity} }}).then(() => 'open', (error) => error.message)");
    // Both principals share one connection inside the server.
    assert_eq!(eval(&bob, &open).await, json!("this identity may not read the space"));
    assert_eq!(eval(&ann, &open).await, json!("open"));
}

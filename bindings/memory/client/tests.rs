//! The client against a scripted server: frames in, frames out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;

struct TestClient {
    client: Client,
    out: Outbox,
    now: Instant,
    target: SpaceIdentity,
}

type ReplyReceiver = oneshot::Receiver<Result<Data, ClientError>>;

impl TestClient {
    fn new() -> Self {
        let identity = Arc::new(Identity::for_principal(b"secret", "ada").unwrap());
        let client = Client::new(ClientOptions { dialect: Dialect::Plain, ..ClientOptions::default() });
        let target = SpaceIdentity { space: "did:s".to_owned(), identity };
        Self { client, out: Outbox::default(), now: Instant::now(), target }
    }

    /// Connects and answers `hello` with `hello.ok`.
    fn connect(&mut self) {
        self.client.on_open(self.now, &mut self.out);
        assert_eq!(self.take_sent()[0]["type"], json!("hello"));
        let challenge = json!({"audience": "aud", "challenge": {"value": "c1", "expiresAt": 1}});
        self.receive(
            json!({"type": "hello.ok", "protocol": "memory", "flags": {}, "sessionOpen": challenge}),
        );
    }

    fn drop_connection(&mut self) {
        self.client.on_end(self.now);
        self.out = Outbox::default();
    }

    fn receive(&mut self, message: Value) {
        self.client.on_text(&message.to_string(), self.now, &mut self.out);
    }

    fn respond(&mut self, request: &Value, key: &str, content: Value) {
        self.receive(json!({"type": "response", "requestId": request["requestId"], key: content}));
    }

    fn take_sent(&mut self) -> Vec<Value> {
        self.out.take_texts().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    fn take_one(&mut self) -> Value {
        let mut sent = self.take_sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    fn request(&mut self, build: impl FnOnce(SpaceIdentity, Reply) -> Request) -> ReplyReceiver {
        let (reply_tx, reply_rx) = oneshot::channel();
        let request = build(self.target.clone(), reply_tx);
        self.client.on_command(request, self.now, &mut self.out);
        reply_rx
    }

    fn transact(&mut self) -> ReplyReceiver {
        self.request(|target, reply_tx| Request::Transact {
            target,
            commit: object([("operations", Data::List(vec![]))]),
            reply_tx,
        })
    }

    fn query(&mut self) -> ReplyReceiver {
        self.request(|target, reply_tx| Request::Query { target, query: object([]), reply_tx })
    }

    fn watch(&mut self, syncs: &Arc<SyncBuffer>) -> ReplyReceiver {
        let syncs = Arc::clone(syncs);
        let watches = Data::List(vec![]);
        self.request(|target, reply_tx| Request::Watch { target, watch_number: 1, watches, syncs, reply_tx })
    }

    /// Accepts the `session.open` that the client sent, and returns it.
    fn open(&mut self, resumed: bool) -> Value {
        let opening = self.take_one();
        assert_eq!(opening["type"], json!("session.open"));
        let mut ok = json!({"sessionId": "s1", "sessionToken": "t1", "serverSeq": 0});
        if resumed {
            ok["resumed"] = json!(true);
        }
        self.respond(&opening, "ok", ok);
        opening
    }
}

fn poll_reply(reply: &mut ReplyReceiver) -> Result<Value, String> {
    match reply.try_recv() {
        Ok(result) => result.map(|data| data.to_plain()).map_err(|error| error.name),
        Err(TryRecvError::Empty) => Err("waiting".to_owned()),
        Err(TryRecvError::Closed) => Err("dropped".to_owned()),
    }
}

fn effect(effect: Value) -> Value {
    json!({"type": "session/effect", "space": "did:s", "sessionId": "s1", "effect": effect})
}

#[test]
fn session_is_opened_on_demand_and_signs_the_challenge() {
    let mut test = TestClient::new();
    test.connect();
    assert!(test.take_sent().is_empty());
    let mut reply = test.query();
    let opening = test.open(false);
    assert_eq!(opening["invocation"]["aud"], json!("aud"));
    assert_eq!(opening["invocation"]["challenge"], json!("c1"));
    assert_eq!(opening["invocation"]["sub"], json!("did:s"));
    let query = test.take_one();
    assert_eq!((&query["type"], &query["sessionId"]), (&json!("graph.query"), &json!("s1")));
    test.respond(&query, "ok", json!({"serverSeq": 3}));
    assert_eq!(poll_reply(&mut reply), Ok(json!({"serverSeq": 3})));
}

#[test]
fn request_before_hello_ok_waits_for_it() {
    let mut test = TestClient::new();
    test.client.on_open(test.now, &mut test.out);
    test.take_sent();
    let mut reply = test.query();
    assert!(test.take_sent().is_empty());
    test.receive(json!({"type": "hello.ok", "protocol": "memory", "flags": {}}));
    let opening = test.open(false);
    assert_eq!(opening["invocation"].get("challenge"), None);
    let query = test.take_one();
    test.respond(&query, "ok", json!({}));
    assert!(poll_reply(&mut reply).is_ok());
}

#[test]
fn commit_is_sent_again_unchanged_after_a_reconnect() {
    let mut test = TestClient::new();
    test.connect();
    let mut reply = test.transact();
    test.open(false);
    let first = test.take_one();
    assert_eq!(first["commit"]["localSeq"], json!(1));
    test.drop_connection();
    assert_eq!(poll_reply(&mut reply), Err("waiting".to_owned()));
    test.connect();
    let opening = test.open(true);
    assert_eq!(opening["session"], json!({"seenSeq": 0, "sessionId": "s1", "sessionToken": "t1"}));
    let again = test.take_one();
    assert_eq!(again["commit"], first["commit"]);
    test.respond(&again, "ok", json!({"seq": 9}));
    assert_eq!(poll_reply(&mut reply), Ok(json!({"seq": 9})));
}

#[test]
fn query_fails_when_the_connection_is_lost() {
    let mut test = TestClient::new();
    test.connect();
    let mut sent = test.query();
    test.open(false);
    test.take_one();
    let mut unsent = test.request(|target, reply_tx| Request::Open {
        target: SpaceIdentity { space: "did:other".to_owned(), ..target },
        reply_tx,
    });
    test.drop_connection();
    assert_eq!(poll_reply(&mut sent), Err("dropped".to_owned()));
    assert_eq!(poll_reply(&mut unsent), Err("ConnectionError".to_owned()));
}

#[test]
fn conflict_is_reported_after_the_missing_sync() {
    let mut test = TestClient::new();
    test.connect();
    let mut reply = test.transact();
    test.open(false);
    let commit = test.take_one();
    test.respond(&commit, "error", json!({"name": "ConflictError", "message": "stale", "retryAfterSeq": 4}));
    assert_eq!(poll_reply(&mut reply), Err("waiting".to_owned()));
    test.receive(effect(json!({"type": "sync", "fromSeq": 0, "toSeq": 4, "upserts": [], "removes": [], "caughtUpLocalSeq": 1})));
    assert_eq!(poll_reply(&mut reply), Err("ConflictError".to_owned()));
    assert_eq!(test.take_one()["type"], json!("session.ack"));
}

#[test]
fn conflict_is_reported_after_a_timeout_without_sync() {
    let mut test = TestClient::new();
    test.connect();
    let mut reply = test.transact();
    test.open(false);
    let commit = test.take_one();
    test.respond(&commit, "error", json!({"name": "ConflictError", "message": "stale", "retryAfterSeq": 4}));
    let until = test.client.wake_at().unwrap();
    test.client.on_wake(until - Duration::from_millis(1), &mut test.out);
    assert_eq!(poll_reply(&mut reply), Err("waiting".to_owned()));
    test.client.on_wake(until, &mut test.out);
    assert_eq!(poll_reply(&mut reply), Err("ConflictError".to_owned()));
    assert_eq!(test.client.wake_at(), None);
}

#[test]
fn conflict_without_retry_after_seq_is_reported_directly() {
    let mut test = TestClient::new();
    test.connect();
    let mut reply = test.transact();
    test.open(false);
    let commit = test.take_one();
    test.respond(&commit, "error", json!({"name": "ConflictError", "message": "stale"}));
    assert_eq!(poll_reply(&mut reply), Err("ConflictError".to_owned()));
}

#[tokio::test]
async fn restored_watch_delivers_only_new_versions() {
    let mut test = TestClient::new();
    let syncs = Arc::new(SyncBuffer::default());
    test.connect();
    let mut first = test.watch(&syncs);
    test.open(false);
    let watch = test.take_one();
    assert_eq!(watch["type"], json!("session.watch.set"));
    let x = json!({"id": "of:x", "scope": "space", "seq": 1, "doc": {}});
    let y = json!({"id": "of:y", "scope": "space", "seq": 2, "doc": {}});
    test.respond(&watch, "ok", json!({"serverSeq": 1, "sync": {"toSeq": 1, "upserts": [x], "removes": []}}));
    assert_eq!(poll_reply(&mut first).unwrap()["upserts"], json!([x]));
    test.take_sent();
    test.drop_connection();
    test.connect();
    test.open(false);
    let again = test.take_one();
    assert_eq!(again["watches"], watch["watches"]);
    test.respond(
        &again,
        "ok",
        json!({"serverSeq": 2, "sync": {"toSeq": 2, "upserts": [x, y], "removes": []}}),
    );
    assert_eq!(syncs.take().await.to_plain()["upserts"], json!([y]));
}

#[test]
fn watch_abandoned_while_disconnected_is_not_restored() {
    let mut test = TestClient::new();
    let syncs = Arc::new(SyncBuffer::default());
    test.connect();
    let _first = test.watch(&syncs);
    test.open(false);
    test.drop_connection();
    drop(syncs);
    test.connect();
    assert!(test.take_sent().is_empty());
}

#[test]
fn revoked_session_fails_commits_and_reopens_on_demand() {
    let mut test = TestClient::new();
    test.connect();
    let mut reply = test.transact();
    test.open(false);
    test.take_one();
    test.receive(
        json!({"type": "session/revoked", "space": "did:s", "sessionId": "s1", "reason": "taken-over"}),
    );
    assert_eq!(poll_reply(&mut reply), Err("SessionRevokedError".to_owned()));
    test.query();
    assert_eq!(test.take_one()["session"], json!({}));
}

#[test]
fn commit_fails_when_the_session_token_is_rejected() {
    let mut test = TestClient::new();
    test.connect();
    let mut reply = test.transact();
    test.open(false);
    test.drop_connection();
    test.connect();
    let opening = test.take_one();
    test.respond(&opening, "error", json!({"name": "SessionRevokedError", "message": "stale token"}));
    assert_eq!(poll_reply(&mut reply), Err("ConnectionError".to_owned()));
}

#[test]
fn sessions_are_opened_one_by_one() {
    let mut test = TestClient::new();
    test.connect();
    test.query();
    test.target.space = "did:t".to_owned();
    test.query();
    let opening = test.take_one();
    let challenge = json!({"audience": "aud", "challenge": {"value": "c2", "expiresAt": 1}});
    test.respond(&opening, "ok", json!({"sessionId": "s1", "sessionToken": "t", "sessionOpen": challenge}));
    let sent = test.take_sent();
    let second = sent.iter().find(|message| message["type"] == "session.open").unwrap();
    assert_eq!(second["invocation"]["challenge"], json!("c2"));
    assert_eq!(second["space"], json!("did:t"));
}

#[test]
fn rejected_open_fails_all_requests_of_the_session() {
    let mut test = TestClient::new();
    test.connect();
    let (mut query, mut commit) = (test.query(), test.transact());
    let opening = test.take_one();
    test.respond(&opening, "error", json!({"name": "AuthorizationError", "message": "not you"}));
    assert_eq!(poll_reply(&mut query), Err("AuthorizationError".to_owned()));
    assert_eq!(poll_reply(&mut commit), Err("AuthorizationError".to_owned()));
    assert!(test.client.sessions.is_empty());
}

#[test]
fn rejected_handshake_gives_up() {
    let mut test = TestClient::new();
    test.client.on_open(test.now, &mut test.out);
    let error = json!({"name": "ProtocolError", "message": "flags"});
    test.receive(json!({"type": "response", "requestId": "handshake", "error": error}));
    assert!(matches!(test.out.disconnect(), Some(crate::peering::Disconnect::GiveUp { .. })));
}

#[test]
fn requests_are_limited_and_abandoned_ones_make_room() {
    let mut test = TestClient::new();
    test.connect();
    let mut waiting = vec![test.query()];
    test.open(false);
    waiting.extend((1..REQUESTS_MAX).map(|_| test.query()));
    assert_eq!(test.client.pending_requests.len(), REQUESTS_MAX);
    assert_eq!(poll_reply(&mut test.query()), Err("RateLimitError".to_owned()));
    waiting.clear();
    assert_eq!(poll_reply(&mut test.query()), Err("waiting".to_owned()));
}

#[test]
fn sessions_are_limited_and_idle_ones_make_room() {
    let mut test = TestClient::new();
    for number in 0..SESSIONS_MAX {
        test.target.space = format!("did:{number}");
        drop(test.request(|target, reply_tx| Request::Transact { target, commit: object([]), reply_tx }));
    }
    test.target.space = "did:more".to_owned();
    assert_eq!(poll_reply(&mut test.query()), Err("RateLimitError".to_owned()));
    test.client.on_end(test.now);
    assert_eq!(poll_reply(&mut test.query()), Err("waiting".to_owned()));
    assert_eq!(test.client.sessions.len(), 1);
}

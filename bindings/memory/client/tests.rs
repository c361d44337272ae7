//! The client against a scripted server: frames in, frames out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;

struct Scene {
    client: Client,
    out: Outbox,
    now: Instant,
    at: Mounted,
}

type Answer = oneshot::Receiver<Result<Data, ClientError>>;

impl Scene {
    fn new() -> Self {
        let identity = Arc::new(Identity::of_principal(b"secret", "ada").unwrap());
        let client = Client::new(Manner { dialect: Dialect::Plain, ..Manner::default() });
        let at = Mounted { space: "did:s".to_owned(), identity };
        Self { client, out: Outbox::default(), now: Instant::now(), at }
    }

    /// Connects, and has the server answer the greeting.
    fn connect(&mut self) {
        self.client.on_open(self.now, &mut self.out);
        assert_eq!(self.sent()[0]["type"], json!("hello"));
        let challenge = json!({"audience": "aud", "challenge": {"value": "c1", "expiresAt": 1}});
        self.receive(
            json!({"type": "hello.ok", "protocol": "memory", "flags": {}, "sessionOpen": challenge}),
        );
    }

    /// The connection breaks.
    fn drop_connection(&mut self) {
        self.client.on_end(self.now);
        self.out = Outbox::default();
    }

    fn receive(&mut self, message: Value) {
        self.client.on_text(&message.to_string(), self.now, &mut self.out);
    }

    fn answer(&mut self, request: &Value, key: &str, content: Value) {
        self.receive(json!({"type": "response", "requestId": request["requestId"], key: content}));
    }

    fn sent(&mut self) -> Vec<Value> {
        self.out.take_texts().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    fn one(&mut self) -> Value {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    fn ask(&mut self, ask: impl FnOnce(Mounted, Reply) -> Ask) -> Answer {
        let (reply_tx, reply_rx) = oneshot::channel();
        let ask = ask(self.at.clone(), reply_tx);
        self.client.on_command(ask, self.now, &mut self.out);
        reply_rx
    }

    fn transact(&mut self) -> Answer {
        self.ask(|at, reply_tx| Ask::Transact {
            at,
            commit: object([("operations", Data::List(vec![]))]),
            reply_tx,
        })
    }

    fn query(&mut self) -> Answer {
        self.ask(|at, reply_tx| Ask::Query { at, query: object([]), reply_tx })
    }

    fn watch(&mut self, mailbox: &Arc<Mailbox>) -> Answer {
        let mailbox = Arc::clone(mailbox);
        self.ask(|at, reply_tx| Ask::Watch { at, number: 1, watches: Data::List(vec![]), mailbox, reply_tx })
    }

    /// Has the server open the session that is asked for.
    fn open(&mut self, resumed: bool) -> Value {
        let opening = self.one();
        assert_eq!(opening["type"], json!("session.open"));
        let mut ok = json!({"sessionId": "s1", "sessionToken": "t1", "serverSeq": 0});
        if resumed {
            ok["resumed"] = json!(true);
        }
        self.answer(&opening, "ok", ok);
        opening
    }
}

fn settled(answer: &mut Answer) -> Result<Value, String> {
    match answer.try_recv() {
        Ok(result) => result.map(|data| data.to_plain()).map_err(|error| error.name),
        Err(TryRecvError::Empty) => Err("waiting".to_owned()),
        Err(TryRecvError::Closed) => Err("dropped".to_owned()),
    }
}

fn effect(effect: Value) -> Value {
    json!({"type": "session/effect", "space": "did:s", "sessionId": "s1", "effect": effect})
}

#[test]
fn a_session_is_opened_when_it_is_needed_and_signed_with_what_the_server_said() {
    let mut scene = Scene::new();
    scene.connect();
    assert!(scene.sent().is_empty());
    let mut answer = scene.query();
    let opening = scene.open(false);
    assert_eq!(opening["invocation"]["aud"], json!("aud"));
    assert_eq!(opening["invocation"]["challenge"], json!("c1"));
    assert_eq!(opening["invocation"]["sub"], json!("did:s"));
    let query = scene.one();
    assert_eq!((&query["type"], &query["sessionId"]), (&json!("graph.query"), &json!("s1")));
    scene.answer(&query, "ok", json!({"serverSeq": 3}));
    assert_eq!(settled(&mut answer), Ok(json!({"serverSeq": 3})));
}

#[test]
fn what_is_asked_before_the_greeting_is_answered_waits_for_it() {
    let mut scene = Scene::new();
    scene.client.on_open(scene.now, &mut scene.out);
    scene.sent();
    let mut answer = scene.query();
    assert!(scene.sent().is_empty());
    scene.receive(json!({"type": "hello.ok", "protocol": "memory", "flags": {}}));
    let opening = scene.open(false);
    assert_eq!(opening["invocation"].get("challenge"), None);
    let query = scene.one();
    scene.answer(&query, "ok", json!({}));
    assert!(settled(&mut answer).is_ok());
}

#[test]
fn a_commit_outlives_the_connection_and_is_sent_again_as_it_was() {
    let mut scene = Scene::new();
    scene.connect();
    let mut answer = scene.transact();
    scene.open(false);
    let first = scene.one();
    assert_eq!(first["commit"]["localSeq"], json!(1));
    scene.drop_connection();
    assert_eq!(settled(&mut answer), Err("waiting".to_owned()));
    scene.connect();
    let opening = scene.open(true);
    assert_eq!(opening["session"], json!({"seenSeq": 0, "sessionId": "s1", "sessionToken": "t1"}));
    let again = scene.one();
    assert_eq!(again["commit"], first["commit"]);
    scene.answer(&again, "ok", json!({"seq": 9}));
    assert_eq!(settled(&mut answer), Ok(json!({"seq": 9})));
}

#[test]
fn a_question_does_not_outlive_the_connection() {
    let mut scene = Scene::new();
    scene.connect();
    let mut asked = scene.query();
    scene.open(false);
    scene.one();
    let mut unsent =
        scene.ask(|at, reply_tx| Ask::Open { at: Mounted { space: "did:other".to_owned(), ..at }, reply_tx });
    scene.drop_connection();
    assert_eq!(settled(&mut asked), Err("dropped".to_owned()));
    assert_eq!(settled(&mut unsent), Err("ConnectionError".to_owned()));
}

#[test]
fn a_refused_commit_is_told_when_what_it_missed_has_come() {
    let mut scene = Scene::new();
    scene.connect();
    let mut answer = scene.transact();
    scene.open(false);
    let commit = scene.one();
    scene.answer(&commit, "error", json!({"name": "ConflictError", "message": "stale", "retryAfterSeq": 4}));
    assert_eq!(settled(&mut answer), Err("waiting".to_owned()));
    scene.receive(effect(json!({"type": "sync", "fromSeq": 0, "toSeq": 4, "upserts": [], "removes": [], "caughtUpLocalSeq": 1})));
    assert_eq!(settled(&mut answer), Err("ConflictError".to_owned()));
    assert_eq!(scene.one()["type"], json!("session.ack"));
}

#[test]
fn a_server_that_never_says_so_holds_nobody_up_for_long() {
    let mut scene = Scene::new();
    scene.connect();
    let mut answer = scene.transact();
    scene.open(false);
    let commit = scene.one();
    scene.answer(&commit, "error", json!({"name": "ConflictError", "message": "stale", "retryAfterSeq": 4}));
    let until = scene.client.wake_at().unwrap();
    scene.client.on_wake(until - Duration::from_millis(1), &mut scene.out);
    assert_eq!(settled(&mut answer), Err("waiting".to_owned()));
    scene.client.on_wake(until, &mut scene.out);
    assert_eq!(settled(&mut answer), Err("ConflictError".to_owned()));
    assert_eq!(scene.client.wake_at(), None);
}

#[test]
fn a_server_without_marks_is_not_waited_for() {
    let mut scene = Scene::new();
    scene.connect();
    let mut answer = scene.transact();
    scene.open(false);
    let commit = scene.one();
    scene.answer(&commit, "error", json!({"name": "ConflictError", "message": "stale"}));
    assert_eq!(settled(&mut answer), Err("ConflictError".to_owned()));
}

#[tokio::test]
async fn a_watch_is_restored_and_what_is_known_is_not_told_again() {
    let mut scene = Scene::new();
    let mailbox = Arc::new(Mailbox::default());
    scene.connect();
    let mut first = scene.watch(&mailbox);
    scene.open(false);
    let watch = scene.one();
    assert_eq!(watch["type"], json!("session.watch.set"));
    let x = json!({"id": "of:x", "scope": "space", "seq": 1, "doc": {}});
    let y = json!({"id": "of:y", "scope": "space", "seq": 2, "doc": {}});
    scene.answer(&watch, "ok", json!({"serverSeq": 1, "sync": {"toSeq": 1, "upserts": [x], "removes": []}}));
    assert_eq!(settled(&mut first).unwrap()["upserts"], json!([x]));
    scene.sent();
    scene.drop_connection();
    scene.connect();
    scene.open(false);
    let again = scene.one();
    assert_eq!(again["watches"], watch["watches"]);
    scene.answer(
        &again,
        "ok",
        json!({"serverSeq": 2, "sync": {"toSeq": 2, "upserts": [x, y], "removes": []}}),
    );
    assert_eq!(mailbox.take().await.to_plain()["upserts"], json!([y]));
}

#[test]
fn a_watch_that_was_let_go_while_the_server_was_away_is_not_restored() {
    let mut scene = Scene::new();
    let mailbox = Arc::new(Mailbox::default());
    scene.connect();
    let _first = scene.watch(&mailbox);
    scene.open(false);
    scene.drop_connection();
    drop(mailbox);
    scene.connect();
    assert!(scene.sent().is_empty());
}

#[test]
fn a_session_that_was_taken_over_fails_its_commits_and_is_opened_anew_when_needed() {
    let mut scene = Scene::new();
    scene.connect();
    let mut answer = scene.transact();
    scene.open(false);
    scene.one();
    scene.receive(
        json!({"type": "session/revoked", "space": "did:s", "sessionId": "s1", "reason": "taken-over"}),
    );
    assert_eq!(settled(&mut answer), Err("SessionRevokedError".to_owned()));
    scene.query();
    assert_eq!(scene.one()["session"], json!({}));
}

#[test]
fn a_lost_token_means_that_the_outcome_is_unknown() {
    let mut scene = Scene::new();
    scene.connect();
    let mut answer = scene.transact();
    scene.open(false);
    scene.drop_connection();
    scene.connect();
    let opening = scene.one();
    scene.answer(&opening, "error", json!({"name": "SessionRevokedError", "message": "stale token"}));
    assert_eq!(settled(&mut answer), Err("ConnectionError".to_owned()));
}

#[test]
fn openings_go_one_after_the_other() {
    let mut scene = Scene::new();
    scene.connect();
    scene.query();
    scene.at.space = "did:t".to_owned();
    scene.query();
    let opening = scene.one();
    let challenge = json!({"audience": "aud", "challenge": {"value": "c2", "expiresAt": 1}});
    scene.answer(&opening, "ok", json!({"sessionId": "s1", "sessionToken": "t", "sessionOpen": challenge}));
    let sent = scene.sent();
    let second = sent.iter().find(|message| message["type"] == "session.open").unwrap();
    assert_eq!(second["invocation"]["challenge"], json!("c2"));
    assert_eq!(second["space"], json!("did:t"));
}

#[test]
fn a_refused_opening_fails_all_who_wait_for_it() {
    let mut scene = Scene::new();
    scene.connect();
    let (mut query, mut commit) = (scene.query(), scene.transact());
    let opening = scene.one();
    scene.answer(&opening, "error", json!({"name": "AuthorizationError", "message": "not you"}));
    assert_eq!(settled(&mut query), Err("AuthorizationError".to_owned()));
    assert_eq!(settled(&mut commit), Err("AuthorizationError".to_owned()));
    assert!(scene.client.replicas.is_empty());
}

#[test]
fn a_refused_handshake_is_the_end() {
    let mut scene = Scene::new();
    scene.client.on_open(scene.now, &mut scene.out);
    let error = json!({"name": "ProtocolError", "message": "flags"});
    scene.receive(json!({"type": "response", "requestId": "handshake", "error": error}));
    assert!(matches!(scene.out.parting(), Some(crate::peering::Disconnect::GiveUp { .. })));
}

#[test]
fn requests_wait_up_to_the_limit_and_those_nobody_waits_for_make_room() {
    let mut scene = Scene::new();
    scene.connect();
    let mut waiting = vec![scene.query()];
    scene.open(false);
    waiting.extend((1..REQUESTS_MAX).map(|_| scene.query()));
    assert_eq!(scene.client.requests.len(), REQUESTS_MAX);
    assert_eq!(settled(&mut scene.query()), Err("RateLimitError".to_owned()));
    waiting.clear();
    assert_eq!(settled(&mut scene.query()), Err("waiting".to_owned()));
}

#[test]
fn sessions_are_kept_up_to_the_limit_and_idle_ones_make_room() {
    let mut scene = Scene::new();
    for number in 0..REPLICAS_MAX {
        scene.at.space = format!("did:{number}");
        drop(scene.ask(|at, reply_tx| Ask::Transact { at, commit: object([]), reply_tx }));
    }
    scene.at.space = "did:more".to_owned();
    assert_eq!(settled(&mut scene.query()), Err("RateLimitError".to_owned()));
    scene.client.on_end(scene.now);
    assert_eq!(settled(&mut scene.query()), Err("waiting".to_owned()));
    assert_eq!(scene.client.replicas.len(), 1);
}

//! Sessions of a space: ownership, syncs and their timing.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::store::Durability;
use super::flush::{FLUSH_DELAY, FLUSH_DELAY_MAX};
use super::*;

struct TestSpace {
    space: Space,
    now: Instant,
    outgoing: OutgoingMessages,
    local_seq: u64,
}

impl TestSpace {
    fn new() -> Self {
        Self::with_access(Access::default())
    }

    fn with_access(access: Access) -> Self {
        let store = Store::open(None, Durability::Full).unwrap();
        let new_id = || uuid::Uuid::new_v4().to_string();
        let space = Space::new("did:space".to_owned(), access, store, new_id).unwrap();
        Self { space, now: Instant::now(), outgoing: Vec::new(), local_seq: 0 }
    }

    fn open(&mut self, connection_id: ConnectionId, session: Value) -> Result<Value, WireError> {
        self.open_as(connection_id, None, session)
    }

    fn open_as(
        &mut self,
        connection_id: ConnectionId,
        principal: Option<&str>,
        session: Value,
    ) -> Result<Value, WireError> {
        let open_request =
            OpenRequest::new(connection_id, principal.map(str::to_owned), &Data::from_plain(session));
        self.space
            .open_session(&open_request, self.now, &mut self.outgoing)
            .map(|response| response.to_plain())
    }

    fn request(
        &mut self,
        connection_id: ConnectionId,
        session: &str,
        command: Command,
    ) -> Result<Value, WireError> {
        self.space
            .handle_request(connection_id, session, command, self.now, &mut self.outgoing)
            .map(|response| response.to_plain())
    }

    fn commit(
        &mut self,
        connection_id: ConnectionId,
        session: &str,
        commit: Value,
    ) -> Result<Value, WireError> {
        self.request(connection_id, session, Command::Transact { commit: Data::from_plain(commit) })
    }

    fn set(&mut self, connection_id: ConnectionId, session: &str, id: &str, value: Value) -> u64 {
        self.local_seq += 1;
        let operations = json!([{"op": "set", "id": id, "value": {"value": value}}]);
        let commit = json!({"localSeq": self.local_seq, "reads": {}, "operations": operations});
        self.commit(connection_id, session, commit).unwrap()["seq"].as_u64().unwrap()
    }

    fn watch(&mut self, connection_id: ConnectionId, session: &str, watches: &[(&str, &str)]) -> Value {
        let watches = watches.iter().map(|(id, root)| watch(id, root, json!(true))).collect();
        self.request(connection_id, session, Command::WatchSet { watches }).unwrap()["sync"].clone()
    }

    /// Waits for the flush delay and returns the messages by connection.
    fn flush(&mut self) -> Vec<(ConnectionId, Value)> {
        self.now += FLUSH_DELAY;
        if self.space.flush_at().is_some_and(|(at, _)| at <= self.now) {
            self.space.flush(&mut self.outgoing);
        }
        self.outgoing.drain(..).map(|(connection_id, message)| (connection_id, message.to_plain())).collect()
    }
}

fn watch(id: &str, root: &str, schema: Value) -> Data {
    Data::from_plain(
        json!({"id": id, "kind": "graph", "query": {"roots": [{"id": root, "selector": {"path": [], "schema": schema}}]}}),
    )
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn session_token_is_valid_once() {
    let mut test = TestSpace::new();
    let first = test.open(1, json!({"sessionId": "s"})).unwrap();
    assert_eq!(first.get("resumed"), None);
    assert_eq!(test.open(2, json!({"sessionId": "s"})).unwrap_err().name, "SessionRevokedError");
    let token = first["sessionToken"].clone();
    let second = test.open(2, json!({"sessionId": "s", "sessionToken": token})).unwrap();
    assert_eq!(second["resumed"], json!(true));
    assert_ne!(second["sessionToken"], token);
    assert_eq!(
        test.flush(),
        [(
            1,
            json!({"reason": "taken-over", "sessionId": "s", "space": "did:space", "type": "session/revoked"})
        )]
    );
    assert_eq!(
        test.open(3, json!({"sessionId": "s", "sessionToken": token})).unwrap_err().name,
        "SessionRevokedError"
    );
    assert_eq!(test.request(1, "s", Command::Ack { seen_seq: 0 }).unwrap_err().name, "SessionError");
    assert!(test.request(2, "s", Command::Ack { seen_seq: 0 }).is_ok());
}

#[test]
fn reopening_on_the_same_connection_does_not_revoke() {
    let mut test = TestSpace::new();
    let token = test.open(1, json!({"sessionId": "s"})).unwrap()["sessionToken"].clone();
    assert!(test.open(1, json!({"sessionId": "s", "sessionToken": token})).is_ok());
    assert!(test.flush().is_empty());
}

#[test]
fn session_of_another_identity_cannot_be_taken_over() {
    let mut test = TestSpace::new();
    let token = test.open_as(1, Some("did:a"), json!({"sessionId": "s"})).unwrap()["sessionToken"].clone();
    let session = json!({"sessionId": "s", "sessionToken": token});
    assert_eq!(test.open_as(2, Some("did:b"), session.clone()).unwrap_err().name, "AuthorizationError");
    assert!(test.open_as(2, Some("did:a"), session).is_ok());
}

#[test]
fn disconnected_session_expires_after_thirty_seconds() {
    let mut test = TestSpace::new();
    let token = test.open(1, json!({"sessionId": "s"})).unwrap()["sessionToken"].clone();
    test.space.on_disconnect(1, test.now);
    test.now += DETACHED_MAX - Duration::from_millis(1);
    let resumed = test.open(2, json!({"sessionId": "s", "sessionToken": token})).unwrap();
    assert_eq!(resumed["resumed"], json!(true));
    test.space.on_disconnect(2, test.now);
    test.now += DETACHED_MAX;
    let created = test.open(3, json!({"sessionId": "s", "sessionToken": "any"})).unwrap();
    assert_eq!(created.get("resumed"), None);
    test.space.on_disconnect(3, test.now);
    test.space.expire_sessions(test.now + DETACHED_MAX);
    assert!(test.space.has_no_sessions() && test.space.watchers.is_empty());
}

#[test]
fn session_past_the_limit_is_rejected() {
    let mut test = TestSpace::new();
    for _ in 0..SESSIONS_MAX {
        test.open(1, json!({})).unwrap();
    }
    assert_eq!(test.open(1, json!({})).unwrap_err().name, "RateLimitError");
}

#[test]
fn commits_are_collected_and_sent_to_watchers() {
    let mut test = TestSpace::new();
    for (connection_id, session) in [(1, "watcher"), (2, "writer"), (3, "other")] {
        test.open(connection_id, json!({"sessionId": session})).unwrap();
    }
    assert_eq!(ids(&test.watch(1, "watcher", &[("w", "of:x"), ("v", "of:y")])["upserts"]), ["of:x", "of:y"]);
    test.watch(3, "other", &[("w", "of:z")]);
    test.set(2, "writer", "of:x", json!(1));
    test.set(2, "writer", "of:x", json!(2));
    test.set(2, "writer", "of:y", json!(3));
    test.set(2, "writer", "of:unwatched", json!(4));
    let sent = test.flush();
    assert_eq!(sent.len(), 1);
    let effect = &sent[0].1["effect"];
    assert_eq!((sent[0].0, ids(&effect["upserts"])), (1, vec!["of:x", "of:y"]));
    assert_eq!(effect["upserts"][0]["seq"], json!(2));
    assert_eq!(effect["toSeq"], json!(4));
    assert!(test.flush().is_empty());
}

#[test]
fn burst_is_flushed_after_a_pause_or_the_longest_delay() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "a"})).unwrap();
    let start = test.now;
    assert_eq!(test.space.flush_at(), None);
    test.set(1, "a", "of:x", json!(1));
    test.space.restart_flush_delay(start + Duration::from_millis(400));
    test.set(1, "a", "of:x", json!(2));
    assert_eq!(test.space.flush_at(), Some((start + Duration::from_millis(405), start + FLUSH_DELAY_MAX)));
}

#[test]
fn session_does_not_receive_its_own_writes() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "a"})).unwrap();
    test.open(2, json!({"sessionId": "b"})).unwrap();
    test.watch(1, "a", &[("w", "of:x")]);
    test.watch(2, "b", &[("w", "of:x")]);
    test.set(1, "a", "of:x", json!(1));
    assert_eq!(test.flush().iter().map(|(connection_id, _)| *connection_id).collect::<Vec<_>>(), [2]);
    test.set(1, "a", "of:x", json!(2));
    test.set(2, "b", "of:x", json!(3));
    let sent = test.flush();
    assert_eq!(sent.len(), 1, "b wrote last, so only a gets a sync");
    assert_eq!((sent[0].0, &sent[0].1["effect"]["upserts"][0]["seq"]), (1, &json!(3)));
}

#[test]
fn conflict_is_followed_by_a_sync_even_without_watches() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "a"})).unwrap();
    test.open(2, json!({"sessionId": "b"})).unwrap();
    test.watch(1, "a", &[("w", "of:x")]);
    test.set(2, "b", "of:x", json!(1));
    test.flush();
    let stale = |local_seq: u64| {
        json!({"localSeq": local_seq, "reads": {"confirmed": [{"id": "of:x", "path": [], "seq": 0}]},
               "operations": [{"op": "delete", "id": "of:x"}]})
    };
    let conflict = test.commit(1, "a", stale(7)).unwrap_err();
    assert_eq!((conflict.name, conflict.detail), ("ConflictError", Some(("retryAfterSeq", 1_u64.into()))));
    assert_eq!(test.commit(2, "b", stale(9)).unwrap_err().name, "ConflictError");
    let sent = test.flush();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].1["effect"]["caughtUpLocalSeq"], json!(7));
    assert_eq!(sent[1].1["effect"]["caughtUpLocalSeq"], json!(9));
    assert_eq!(sent[1].1["effect"]["upserts"], json!([]));
}

#[test]
fn resumed_session_receives_missed_changes() {
    let mut test = TestSpace::new();
    let token = test.open(1, json!({"sessionId": "a"})).unwrap()["sessionToken"].clone();
    test.watch(1, "a", &[("w", "of:x")]);
    test.space.on_disconnect(1, test.now);
    test.open(2, json!({"sessionId": "b"})).unwrap();
    test.set(2, "b", "of:x", json!(1));
    assert!(test.flush().is_empty());
    test.set(2, "b", "of:x", json!(2));
    // The second commit is not flushed yet and must not be lost.
    let resumed = test.open(3, json!({"sessionId": "a", "sessionToken": token, "seenSeq": 0})).unwrap();
    assert_eq!(resumed["sync"]["upserts"][0]["seq"], json!(2));
    assert!(test.flush().is_empty());
    let again = json!({"sessionId": "a", "sessionToken": resumed["sessionToken"]});
    assert_eq!(test.open(3, again).unwrap().get("sync"), None);
}

#[test]
fn new_links_extend_the_watched_documents() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "a"})).unwrap();
    test.open(2, json!({"sessionId": "b"})).unwrap();
    test.set(2, "b", "of:new", json!(1));
    test.watch(1, "a", &[("w", "of:x")]);
    test.set(2, "b", "of:x", json!({"/": {"link@1": {"id": "of:new", "path": []}}}));
    assert_eq!(ids(&test.flush()[0].1["effect"]["upserts"]), ["of:new", "of:x"]);
    test.set(2, "b", "of:new", json!(2));
    assert_eq!(ids(&test.flush()[0].1["effect"]["upserts"]), ["of:new"]);
    // The document stays tracked when the link is removed.
    test.set(2, "b", "of:x", json!(0));
    test.flush();
    test.set(2, "b", "of:new", json!(3));
    assert_eq!(ids(&test.flush()[0].1["effect"]["upserts"]), ["of:new"]);
}

#[test]
fn replaced_watch_sends_no_more_changes() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "a"})).unwrap();
    test.open(2, json!({"sessionId": "b"})).unwrap();
    test.watch(1, "a", &[("w", "of:x")]);
    let sync = test.watch(1, "a", &[("w", "of:y")]);
    assert_eq!((ids(&sync["upserts"]), ids(&sync["removes"])), (vec!["of:y"], vec!["of:x"]));
    test.set(2, "b", "of:x", json!(1));
    assert!(test.flush().is_empty());
    assert_eq!(test.space.watchers.len(), 1);
}

#[test]
fn failed_watch_keeps_the_previous_watches() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "a"})).unwrap();
    test.open(2, json!({"sessionId": "b"})).unwrap();
    test.watch(1, "a", &[("w", "of:x")]);
    let bad = || vec![watch("bad", "of:y", json!(5))];
    assert_eq!(test.request(1, "a", Command::WatchAdd { watches: bad() }).unwrap_err().name, "QueryError");
    assert_eq!(test.request(1, "a", Command::WatchSet { watches: bad() }).unwrap_err().name, "QueryError");
    let other = vec![watch("w", "of:y", json!(true))];
    assert_eq!(test.request(1, "a", Command::WatchAdd { watches: other }).unwrap_err().name, "ProtocolError");
    let same = vec![watch("w", "of:x", json!(true))];
    assert_eq!(
        test.request(1, "a", Command::WatchAdd { watches: same }).unwrap()["sync"]["upserts"],
        json!([])
    );
    test.set(2, "b", "of:x", json!(1));
    assert_eq!(ids(&test.flush()[0].1["effect"]["upserts"]), ["of:x"]);
}

#[test]
fn access_lists_restrict_reading_and_writing() {
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>());
    let mut test =
        TestSpace::with_access(Access { read: list(&["did:a", "did:b"]), write: list(&["did:a"]) });
    assert_eq!(test.open_as(1, Some("did:c"), json!({})).unwrap_err().name, "AuthorizationError");
    assert_eq!(test.open_as(1, None, json!({})).unwrap_err().name, "AuthorizationError");
    let commit = json!({"localSeq": 1, "reads": {}, "operations": [{"op": "delete", "id": "of:x"}]});
    for (principal, writes) in [("did:a", true), ("did:b", false)] {
        test.open_as(1, Some(principal), json!({"sessionId": principal})).unwrap();
        assert_eq!(test.commit(1, principal, commit.clone()).is_ok(), writes, "{principal}");
    }
}

#[test]
fn commit_does_not_affect_sessions_of_other_documents() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "writer"})).unwrap();
    for number in 0..100 {
        let session = format!("s{number}");
        test.open(2, json!({"sessionId": session})).unwrap();
        test.watch(2, &session, &[("w", &format!("of:{number}"))]);
    }
    test.set(1, "writer", "of:7", json!(1));
    let sent = test.flush();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1["sessionId"], json!("s7"));
    assert!(test.space.sessions.values().all(|session| session.stale.is_empty()));
}

#[test]
fn conflict_follows_the_syncs_of_its_connection() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "writer"})).unwrap();
    test.open(2, json!({"sessionId": "view"})).unwrap();
    test.open(2, json!({"sessionId": "same connection"})).unwrap();
    test.open(3, json!({"sessionId": "elsewhere"})).unwrap();
    for (connection_id, session) in [(2, "view"), (3, "elsewhere")] {
        test.watch(connection_id, session, &[("w", "x")]);
    }
    let seq = test.set(1, "writer", "x", json!(1));
    let operations = json!([{"op": "delete", "id": "x"}]);
    let confirmed = json!([{"id": "x", "path": ["value"], "seq": 0}]);
    let stale = json!({"localSeq": 1, "reads": {"confirmed": confirmed}, "operations": operations});
    assert_eq!(test.commit(2, "same connection", stale).unwrap_err().name, "ConflictError");
    // Sent with the response, without the flush delay.
    let sent: Vec<_> = test.outgoing.drain(..).map(|(to, message)| (to, message.to_plain())).collect();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((sent[0].0, &sent[0].1["sessionId"]), (2, &json!("view")));
    assert_eq!(sent[0].1["effect"]["upserts"][0]["seq"], json!(seq));
    // Other connections get the sync with the next flush, and no session gets it twice.
    let later = test.flush();
    let views: Vec<_> =
        later.iter().map(|(to, message)| (*to, message["sessionId"].as_str().unwrap())).collect();
    assert_eq!(views, [(3, "elsewhere"), (2, "same connection")]);
    assert_eq!(later[1].1["effect"]["caughtUpLocalSeq"], json!(1));
}

#[test]
fn first_commit_revokes_sessions_of_other_identities() {
    let mut test = TestSpace::new();
    test.open_as(1, Some("did:a"), json!({"sessionId": "a"})).unwrap();
    test.open_as(2, Some("did:b"), json!({"sessionId": "b"})).unwrap();
    test.watch(2, "b", &[("w", "x")]);
    test.set(1, "a", "x", json!(1));
    let sent = test.flush();
    let revoked =
        json!({"reason": "unauthorized", "sessionId": "b", "space": "did:space", "type": "session/revoked"});
    assert_eq!(sent, [(2, revoked)]);
    assert_eq!(test.request(2, "b", Command::Ack { seen_seq: 0 }).unwrap_err().name, "SessionError");
    let error = test.open_as(2, Some("did:b"), json!({"sessionId": "b"})).unwrap_err();
    assert_eq!(error.name, "AuthorizationError");
}

#[test]
fn query_past_the_last_commit_or_subscribing_is_rejected() {
    let mut test = TestSpace::new();
    test.open(1, json!({"sessionId": "s"})).unwrap();
    let last_change = test.set(1, "s", "of:x", json!(1));
    let roots = json!([{"id": "of:x", "selector": {"path": [], "schema": false}}]);
    let mut request = |query: Value| {
        let query = Data::from_plain(query);
        test.request(1, "s", Command::Query { query }).map_err(|error| error.name)
    };
    assert!(request(json!({"roots": roots, "atSeq": last_change})).is_ok());
    assert!(request(json!({"roots": roots, "atSeq": 0})).is_ok());
    assert_eq!(request(json!({"roots": roots, "atSeq": last_change + 1})), Err("QueryError"));
    assert_eq!(request(json!({"roots": roots, "atSeq": u64::from(u32::MAX) << 20})), Err("QueryError"));
    assert_eq!(request(json!({"roots": roots, "subscribe": true})), Err("ProtocolError"));
    assert!(request(json!({"roots": roots, "subscribe": false})).is_ok());
}

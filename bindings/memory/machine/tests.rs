//! Sessions in a space: who owns them, what they are told, and when.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::store::Durability;
use super::*;

struct Room {
    space: Space,
    now: Instant,
    outbox: Outbox,
    local_seq: u64,
}

impl Room {
    fn new() -> Self {
        Self::with(Access::default())
    }

    fn with(access: Access) -> Self {
        let store = Store::open(None, Durability::Full).unwrap();
        let fresh = || uuid::Uuid::new_v4().to_string();
        let space = Space::new("did:space".to_owned(), access, store, fresh).unwrap();
        Self { space, now: Instant::now(), outbox: Vec::new(), local_seq: 0 }
    }

    fn open(&mut self, connection: Connection, session: Value) -> Result<Value, WireError> {
        self.open_as(connection, None, session)
    }

    fn open_as(
        &mut self,
        connection: Connection,
        principal: Option<&str>,
        session: Value,
    ) -> Result<Value, WireError> {
        let opening = Opening::new(connection, principal.map(str::to_owned), &Data::from_plain(session));
        self.space.open(&opening, self.now, &mut self.outbox).map(|opened| opened.to_plain())
    }

    fn ask(&mut self, connection: Connection, session: &str, command: Command) -> Result<Value, WireError> {
        self.space
            .request(connection, session, command, self.now, &mut self.outbox)
            .map(|answer| answer.to_plain())
    }

    fn commit(&mut self, connection: Connection, session: &str, commit: Value) -> Result<Value, WireError> {
        self.ask(connection, session, Command::Transact { commit: Data::from_plain(commit) })
    }

    fn set(&mut self, connection: Connection, session: &str, id: &str, value: Value) -> u64 {
        self.local_seq += 1;
        let operations = json!([{"op": "set", "id": id, "value": {"value": value}}]);
        let commit = json!({"localSeq": self.local_seq, "reads": {}, "operations": operations});
        self.commit(connection, session, commit).unwrap()["seq"].as_u64().unwrap()
    }

    fn watch(&mut self, connection: Connection, session: &str, watches: &[(&str, &str)]) -> Value {
        let watches = watches.iter().map(|(id, root)| watch(id, root, json!(true))).collect();
        self.ask(connection, session, Command::WatchSet { watches }).unwrap()["sync"].clone()
    }

    /// Lets the time of collecting pass; what was sent, by connection.
    fn flush(&mut self) -> Vec<(Connection, Value)> {
        self.now += COLLECT;
        if self.space.flush_at().is_some_and(|(at, _)| at <= self.now) {
            self.space.flush(&mut self.outbox);
        }
        self.outbox.drain(..).map(|(connection, message)| (connection, message.to_plain())).collect()
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
fn a_token_is_good_once_and_a_wrong_one_never() {
    let mut room = Room::new();
    let first = room.open(1, json!({"sessionId": "s"})).unwrap();
    assert_eq!(first.get("resumed"), None);
    assert_eq!(room.open(2, json!({"sessionId": "s"})).unwrap_err().name, "SessionRevokedError");
    let token = first["sessionToken"].clone();
    let second = room.open(2, json!({"sessionId": "s", "sessionToken": token})).unwrap();
    assert_eq!(second["resumed"], json!(true));
    assert_ne!(second["sessionToken"], token);
    assert_eq!(
        room.flush(),
        [(
            1,
            json!({"reason": "taken-over", "sessionId": "s", "space": "did:space", "type": "session/revoked"})
        )]
    );
    assert_eq!(
        room.open(3, json!({"sessionId": "s", "sessionToken": token})).unwrap_err().name,
        "SessionRevokedError"
    );
    assert_eq!(room.ask(1, "s", Command::Ack { seen_seq: 0 }).unwrap_err().name, "SessionError");
    assert!(room.ask(2, "s", Command::Ack { seen_seq: 0 }).is_ok());
}

#[test]
fn reopening_on_the_same_connection_revokes_nothing() {
    let mut room = Room::new();
    let token = room.open(1, json!({"sessionId": "s"})).unwrap()["sessionToken"].clone();
    assert!(room.open(1, json!({"sessionId": "s", "sessionToken": token})).is_ok());
    assert!(room.flush().is_empty());
}

#[test]
fn another_identity_cannot_take_a_session() {
    let mut room = Room::new();
    let token = room.open_as(1, Some("did:a"), json!({"sessionId": "s"})).unwrap()["sessionToken"].clone();
    let session = json!({"sessionId": "s", "sessionToken": token});
    assert_eq!(room.open_as(2, Some("did:b"), session.clone()).unwrap_err().name, "AuthorizationError");
    assert!(room.open_as(2, Some("did:a"), session).is_ok());
}

#[test]
fn a_session_that_is_left_waits_thirty_seconds() {
    let mut room = Room::new();
    let token = room.open(1, json!({"sessionId": "s"})).unwrap()["sessionToken"].clone();
    room.space.disconnected(1, room.now);
    room.now += DETACHED_MAX - Duration::from_millis(1);
    let resumed = room.open(2, json!({"sessionId": "s", "sessionToken": token})).unwrap();
    assert_eq!(resumed["resumed"], json!(true));
    room.space.disconnected(2, room.now);
    room.now += DETACHED_MAX;
    let fresh = room.open(3, json!({"sessionId": "s", "sessionToken": "whatever"})).unwrap();
    assert_eq!(fresh.get("resumed"), None);
    room.space.disconnected(3, room.now);
    room.space.expire(room.now + DETACHED_MAX);
    assert!(room.space.is_deserted() && room.space.watchers.is_empty());
}

#[test]
fn a_space_takes_as_many_sessions_as_allowed() {
    let mut room = Room::new();
    for _ in 0..SESSIONS_MAX {
        room.open(1, json!({})).unwrap();
    }
    assert_eq!(room.open(1, json!({})).unwrap_err().name, "RateLimitError");
}

#[test]
fn commits_are_collected_and_told_to_those_who_watch() {
    let mut room = Room::new();
    for (connection, session) in [(1, "watcher"), (2, "writer"), (3, "other")] {
        room.open(connection, json!({"sessionId": session})).unwrap();
    }
    assert_eq!(ids(&room.watch(1, "watcher", &[("w", "of:x"), ("v", "of:y")])["upserts"]), ["of:x", "of:y"]);
    room.watch(3, "other", &[("w", "of:z")]);
    room.set(2, "writer", "of:x", json!(1));
    room.set(2, "writer", "of:x", json!(2));
    room.set(2, "writer", "of:y", json!(3));
    room.set(2, "writer", "of:unwatched", json!(4));
    let told = room.flush();
    assert_eq!(told.len(), 1);
    let effect = &told[0].1["effect"];
    assert_eq!((told[0].0, ids(&effect["upserts"])), (1, vec!["of:x", "of:y"]));
    assert_eq!(effect["upserts"][0]["seq"], json!(2));
    assert_eq!(effect["toSeq"], json!(4));
    assert!(room.flush().is_empty());
}

#[test]
fn a_burst_is_collected_until_it_pauses_but_not_for_ever() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "a"})).unwrap();
    let start = room.now;
    assert_eq!(room.space.flush_at(), None);
    room.set(1, "a", "of:x", json!(1));
    room.space.settle(start + Duration::from_millis(400));
    room.set(1, "a", "of:x", json!(2));
    assert_eq!(room.space.flush_at(), Some((start + Duration::from_millis(405), start + COLLECT_MAX)));
}

#[test]
fn nobody_hears_its_own_words() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "a"})).unwrap();
    room.open(2, json!({"sessionId": "b"})).unwrap();
    room.watch(1, "a", &[("w", "of:x")]);
    room.watch(2, "b", &[("w", "of:x")]);
    room.set(1, "a", "of:x", json!(1));
    assert_eq!(room.flush().iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [2]);
    room.set(1, "a", "of:x", json!(2));
    room.set(2, "b", "of:x", json!(3));
    let told = room.flush();
    assert_eq!(told.len(), 1, "b wrote last, so only a is told");
    assert_eq!((told[0].0, &told[0].1["effect"]["upserts"][0]["seq"]), (1, &json!(3)));
}

#[test]
fn a_conflict_is_followed_by_what_was_missed_even_without_watches() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "a"})).unwrap();
    room.open(2, json!({"sessionId": "b"})).unwrap();
    room.watch(1, "a", &[("w", "of:x")]);
    room.set(2, "b", "of:x", json!(1));
    room.flush();
    let stale = |local_seq: u64| {
        json!({"localSeq": local_seq, "reads": {"confirmed": [{"id": "of:x", "path": [], "seq": 0}]},
               "operations": [{"op": "delete", "id": "of:x"}]})
    };
    let conflict = room.commit(1, "a", stale(7)).unwrap_err();
    assert_eq!((conflict.name, conflict.detail), ("ConflictError", Some(("retryAfterSeq", 1_u64.into()))));
    assert_eq!(room.commit(2, "b", stale(9)).unwrap_err().name, "ConflictError");
    let told = room.flush();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0].1["effect"]["caughtUpLocalSeq"], json!(7));
    assert_eq!(told[1].1["effect"]["caughtUpLocalSeq"], json!(9));
    assert_eq!(told[1].1["effect"]["upserts"], json!([]));
}

#[test]
fn what_was_missed_is_told_on_return() {
    let mut room = Room::new();
    let token = room.open(1, json!({"sessionId": "a"})).unwrap()["sessionToken"].clone();
    room.watch(1, "a", &[("w", "of:x")]);
    room.space.disconnected(1, room.now);
    room.open(2, json!({"sessionId": "b"})).unwrap();
    room.set(2, "b", "of:x", json!(1));
    assert!(room.flush().is_empty());
    room.set(2, "b", "of:x", json!(2));
    // The second commit is not flushed yet, and must not be lost for that.
    let resumed = room.open(3, json!({"sessionId": "a", "sessionToken": token, "seenSeq": 0})).unwrap();
    assert_eq!(resumed["sync"]["upserts"][0]["seq"], json!(2));
    assert!(room.flush().is_empty());
    let again = json!({"sessionId": "a", "sessionToken": resumed["sessionToken"]});
    assert_eq!(room.open(3, again).unwrap().get("sync"), None);
}

#[test]
fn links_that_appear_widen_what_is_watched() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "a"})).unwrap();
    room.open(2, json!({"sessionId": "b"})).unwrap();
    room.set(2, "b", "of:new", json!(1));
    room.watch(1, "a", &[("w", "of:x")]);
    room.set(2, "b", "of:x", json!({"/": {"link@1": {"id": "of:new", "path": []}}}));
    assert_eq!(ids(&room.flush()[0].1["effect"]["upserts"]), ["of:new", "of:x"]);
    room.set(2, "b", "of:new", json!(2));
    assert_eq!(ids(&room.flush()[0].1["effect"]["upserts"]), ["of:new"]);
    // Nothing is forgotten when the link goes.
    room.set(2, "b", "of:x", json!(0));
    room.flush();
    room.set(2, "b", "of:new", json!(3));
    assert_eq!(ids(&room.flush()[0].1["effect"]["upserts"]), ["of:new"]);
}

#[test]
fn replaced_watches_are_no_longer_told_of() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "a"})).unwrap();
    room.open(2, json!({"sessionId": "b"})).unwrap();
    room.watch(1, "a", &[("w", "of:x")]);
    let sync = room.watch(1, "a", &[("w", "of:y")]);
    assert_eq!((ids(&sync["upserts"]), ids(&sync["removes"])), (vec!["of:y"], vec!["of:x"]));
    room.set(2, "b", "of:x", json!(1));
    assert!(room.flush().is_empty());
    assert_eq!(room.space.watchers.len(), 1);
}

#[test]
fn a_watch_that_fails_leaves_the_session_as_it_was() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "a"})).unwrap();
    room.open(2, json!({"sessionId": "b"})).unwrap();
    room.watch(1, "a", &[("w", "of:x")]);
    let bad = || vec![watch("bad", "of:y", json!(5))];
    assert_eq!(room.ask(1, "a", Command::WatchAdd { watches: bad() }).unwrap_err().name, "QueryError");
    assert_eq!(room.ask(1, "a", Command::WatchSet { watches: bad() }).unwrap_err().name, "QueryError");
    let other = vec![watch("w", "of:y", json!(true))];
    assert_eq!(room.ask(1, "a", Command::WatchAdd { watches: other }).unwrap_err().name, "ProtocolError");
    let same = vec![watch("w", "of:x", json!(true))];
    assert_eq!(room.ask(1, "a", Command::WatchAdd { watches: same }).unwrap()["sync"]["upserts"], json!([]));
    room.set(2, "b", "of:x", json!(1));
    assert_eq!(ids(&room.flush()[0].1["effect"]["upserts"]), ["of:x"]);
}

#[test]
fn lists_say_who_may_read_and_who_may_write() {
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>());
    let mut room = Room::with(Access { read: list(&["did:a", "did:b"]), write: list(&["did:a"]) });
    assert_eq!(room.open_as(1, Some("did:c"), json!({})).unwrap_err().name, "AuthorizationError");
    assert_eq!(room.open_as(1, None, json!({})).unwrap_err().name, "AuthorizationError");
    let commit = json!({"localSeq": 1, "reads": {}, "operations": [{"op": "delete", "id": "of:x"}]});
    for (principal, writes) in [("did:a", true), ("did:b", false)] {
        room.open_as(1, Some(principal), json!({"sessionId": principal})).unwrap();
        assert_eq!(room.commit(1, principal, commit.clone()).is_ok(), writes, "{principal}");
    }
}

#[test]
fn a_commit_costs_nothing_to_those_whom_it_does_not_touch() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "writer"})).unwrap();
    for number in 0..100 {
        let session = format!("s{number}");
        room.open(2, json!({"sessionId": session})).unwrap();
        room.watch(2, &session, &[("w", &format!("of:{number}"))]);
    }
    room.set(1, "writer", "of:7", json!(1));
    let told = room.flush();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].1["sessionId"], json!("s7"));
    assert!(room.space.sessions.values().all(|session| session.missed.is_empty()));
}

#[test]
fn conflict_is_answered_after_what_the_connection_watches() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "writer"})).unwrap();
    room.open(2, json!({"sessionId": "view"})).unwrap();
    room.open(2, json!({"sessionId": "same connection"})).unwrap();
    room.open(3, json!({"sessionId": "elsewhere"})).unwrap();
    for (connection, session) in [(2, "view"), (3, "elsewhere")] {
        room.watch(connection, session, &[("w", "x")]);
    }
    let seq = room.set(1, "writer", "x", json!(1));
    let operations = json!([{"op": "delete", "id": "x"}]);
    let confirmed = json!([{"id": "x", "path": ["value"], "seq": 0}]);
    let stale = json!({"localSeq": 1, "reads": {"confirmed": confirmed}, "operations": operations});
    assert_eq!(room.commit(2, "same connection", stale).unwrap_err().name, "ConflictError");
    // With the answer, before any time has passed.
    let told: Vec<_> = room.outbox.drain(..).map(|(to, message)| (to, message.to_plain())).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].0, &told[0].1["sessionId"]), (2, &json!("view")));
    assert_eq!(told[0].1["effect"]["upserts"][0]["seq"], json!(seq));
    // The others are told as usual, and nobody is told twice.
    let later = room.flush();
    let views: Vec<_> =
        later.iter().map(|(to, message)| (*to, message["sessionId"].as_str().unwrap())).collect();
    assert_eq!(views, [(3, "elsewhere"), (2, "same connection")]);
    assert_eq!(later[1].1["effect"]["caughtUpLocalSeq"], json!(1));
}

#[test]
fn first_commit_ends_the_sessions_of_others() {
    let mut room = Room::new();
    room.open_as(1, Some("did:a"), json!({"sessionId": "a"})).unwrap();
    room.open_as(2, Some("did:b"), json!({"sessionId": "b"})).unwrap();
    room.watch(2, "b", &[("w", "x")]);
    room.set(1, "a", "x", json!(1));
    let told = room.flush();
    let revoked =
        json!({"reason": "unauthorized", "sessionId": "b", "space": "did:space", "type": "session/revoked"});
    assert_eq!(told, [(2, revoked)]);
    assert_eq!(room.ask(2, "b", Command::Ack { seen_seq: 0 }).unwrap_err().name, "SessionError");
    let refused = room.open_as(2, Some("did:b"), json!({"sessionId": "b"})).unwrap_err();
    assert_eq!(refused.name, "AuthorizationError");
}

#[test]
fn query_beyond_the_last_commit_and_subscriptions_are_refused() {
    let mut room = Room::new();
    room.open(1, json!({"sessionId": "s"})).unwrap();
    let last = room.set(1, "s", "of:x", json!(1));
    let roots = json!([{"id": "of:x", "selector": {"path": [], "schema": false}}]);
    let mut ask = |query: Value| {
        let query = Data::from_plain(query);
        room.ask(1, "s", Command::Query { query }).map_err(|error| error.name)
    };
    assert!(ask(json!({"roots": roots, "atSeq": last})).is_ok());
    assert!(ask(json!({"roots": roots, "atSeq": 0})).is_ok());
    assert_eq!(ask(json!({"roots": roots, "atSeq": last + 1})), Err("QueryError"));
    assert_eq!(ask(json!({"roots": roots, "atSeq": u64::from(u32::MAX) << 20})), Err("QueryError"));
    assert_eq!(ask(json!({"roots": roots, "subscribe": true})), Err("ProtocolError"));
    assert!(ask(json!({"roots": roots, "subscribe": false})).is_ok());
}

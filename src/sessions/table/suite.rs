//! What every session table does, as tests: an implementation calls [`table_suite`] with a way to make an empty one.

use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::join_all;

use super::*;

const OWNER: &str = "node-1";

/// Runs every case against a table of its own.
pub(crate) async fn table_suite<T: SessionTable>(empty_table: impl AsyncFn() -> T) {
    record_is_found_as_it_was_created(&empty_table().await).await;
    record_survives_serialization();
    claim_needs_principal_owner_and_token(&empty_table().await).await;
    claim_rotates_the_token(&empty_table().await).await;
    confirm_voids_the_token_before(&empty_table().await).await;
    old_connection_changes_nothing(&empty_table().await).await;
    release_without_eval_removes(&empty_table().await).await;
    release_counts_an_eval_not_yet_confirmed(&empty_table().await).await;
    expired_session_cannot_be_claimed(&empty_table().await).await;
    expire_removes_what_is_over(&empty_table().await).await;
    evict_removes_the_oldest_of_the_principal(&empty_table().await).await;
    list_is_ordered_filtered_and_bounded(&empty_table().await).await;
    concurrent_claims_leave_one_holder(&empty_table().await).await;
    concurrent_claims_and_expiry_agree(&empty_table().await).await;
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn record(id: &str, principal: &str) -> SessionRecord {
    SessionRecord {
        id: id.into(),
        principal: principal.into(),
        tokens: TokenHashes::new(TokenHash::new("first")),
        owner: OWNER.into(),
        connection: FIRST_CONNECTION,
        expires_at: None,
        first_number: 7,
        ran_eval: false,
    }
}

/// A claim of ann's session `s` at second 100.
fn claim(shown: &str, next: &str) -> SessionClaim<'static> {
    let (shown, next) = (TokenHash::new(shown), TokenHash::new(next));
    SessionClaim { id: "s", principal: "ann", owner: OWNER, shown, next, now: at(100) }
}

/// A release of a session to which code was sent.
fn release(id: &str, connection: u64, until: u64) -> Release<'_> {
    Release { id, connection, ran_eval: true, keep_until: Some(at(until)) }
}

/// A detached session that is kept until second `until`.
async fn create_detached(table: &impl SessionTable, id: &str, principal: &str, until: u64) {
    table.create(record(id, principal)).await.unwrap();
    assert_eq!(table.release(release(id, FIRST_CONNECTION, until)).await.unwrap(), Released::Detached);
}

async fn ids(table: &impl SessionTable) -> Vec<String> {
    let records = table.list(None, usize::MAX).await.unwrap();
    records.iter().map(|record| record.id.to_string()).collect()
}

async fn record_is_found_as_it_was_created(table: &impl SessionTable) {
    table.create(record("s", "ann")).await.unwrap();
    let found = table.find("s").await.unwrap().unwrap();
    assert_eq!((&*found.id, &*found.principal, &*found.owner), ("s", "ann", OWNER));
    assert_eq!((found.connection, found.first_number, found.ran_eval), (FIRST_CONNECTION, 7, false));
    assert_eq!(found.expires_at, None);
    assert!(found.tokens.accept(&TokenHash::new("first")));
    assert!(table.find("t").await.unwrap().is_none());
    // An id is taken once, and the record that has it stays as it is.
    assert!(table.create(record("s", "bob")).await.is_err());
    assert_eq!(&*table.find("s").await.unwrap().unwrap().principal, "ann");
    table.remove(&["s".into(), "t".into()]).await.unwrap();
    assert!(table.find("s").await.unwrap().is_none());
}

fn record_survives_serialization() {
    let record = SessionRecord { expires_at: Some(at(5)), ..record("s", "ann") };
    let text = serde_json::to_string(&record).unwrap();
    assert!(!text.contains("first\""), "the token itself is in {text}");
    let read: SessionRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert!(read.tokens.accept(&TokenHash::new("first")) && read.expires_at == Some(at(5)));
}

async fn claim_needs_principal_owner_and_token(table: &impl SessionTable) {
    assert_eq!(table.claim(claim("first", "second")).await.unwrap(), None);
    table.create(record("s", "ann")).await.unwrap();
    let good = claim("first", "second");
    for refused in [
        SessionClaim { principal: "bob", ..good },
        SessionClaim { owner: "node-2", ..good },
        SessionClaim { shown: TokenHash::new("other"), ..good },
        SessionClaim { shown: TokenHash::new(""), ..good },
        // What is going to be the next token is not one yet.
        SessionClaim { shown: TokenHash::new("second"), ..good },
    ] {
        assert_eq!(table.claim(refused).await.unwrap(), None, "{refused:?}");
    }
    // None of them changed anything.
    assert_eq!(table.find("s").await.unwrap().unwrap().connection, FIRST_CONNECTION);
    assert_eq!(table.claim(good).await.unwrap(), Some(FIRST_CONNECTION + 1));
}

async fn claim_rotates_the_token(table: &impl SessionTable) {
    create_detached(table, "s", "ann", 200).await;
    assert_eq!(table.claim(claim("first", "second")).await.unwrap(), Some(2));
    let claimed = table.find("s").await.unwrap().unwrap();
    assert_eq!((claimed.connection, claimed.expires_at), (2, None));
    // The answer with the second token may be lost: the first one is good until the second is confirmed.
    assert_eq!(table.claim(claim("first", "third")).await.unwrap(), Some(3));
    assert_eq!(table.claim(claim("second", "fourth")).await.unwrap(), None);
    assert_eq!(table.claim(claim("third", "fourth")).await.unwrap(), Some(4));
    assert_eq!(table.claim(claim("first", "fifth")).await.unwrap(), None);
}

async fn confirm_voids_the_token_before(table: &impl SessionTable) {
    table.create(record("s", "ann")).await.unwrap();
    table.claim(claim("first", "second")).await.unwrap();
    table.confirm("s", 2, false).await.unwrap();
    assert!(!table.find("s").await.unwrap().unwrap().ran_eval);
    assert_eq!(table.claim(claim("first", "third")).await.unwrap(), None);
    table.confirm("s", 2, true).await.unwrap();
    table.confirm("s", 2, false).await.unwrap();
    assert!(table.find("s").await.unwrap().unwrap().ran_eval);
    assert_eq!(table.claim(claim("second", "third")).await.unwrap(), Some(3));
    table.confirm("t", 1, true).await.unwrap();
}

async fn old_connection_changes_nothing(table: &impl SessionTable) {
    table.create(record("s", "ann")).await.unwrap();
    table.claim(claim("first", "second")).await.unwrap();
    assert_eq!(table.release(release("s", 1, 200)).await.unwrap(), Released::Superseded);
    let removal = Release { keep_until: None, ..release("s", 1, 200) };
    assert_eq!(table.release(removal).await.unwrap(), Released::Superseded);
    table.confirm("s", 1, true).await.unwrap();
    let held = table.find("s").await.unwrap().unwrap();
    assert_eq!((held.connection, held.expires_at, held.ran_eval), (2, None, false));
    // Nor did it confirm the token of the newer connection.
    assert_eq!(table.claim(claim("first", "third")).await.unwrap(), Some(3));
    assert_eq!(table.release(release("s", 3, 200)).await.unwrap(), Released::Detached);
    assert_eq!(table.release(release("t", 1, 200)).await.unwrap(), Released::Superseded);
}

async fn release_without_eval_removes(table: &impl SessionTable) {
    table.create(record("s", "ann")).await.unwrap();
    let without_eval = Release { ran_eval: false, ..release("s", 1, 200) };
    assert_eq!(table.release(without_eval).await.unwrap(), Released::Removed);
    assert!(table.find("s").await.unwrap().is_none());
    // Code was sent, but the session has ended.
    table.create(record("s", "ann")).await.unwrap();
    table.confirm("s", 1, true).await.unwrap();
    let of_ended = Release { keep_until: None, ..without_eval };
    assert_eq!(table.release(of_ended).await.unwrap(), Released::Removed);
    assert!(table.find("s").await.unwrap().is_none());
}

async fn release_counts_an_eval_not_yet_confirmed(table: &impl SessionTable) {
    create_detached(table, "s", "ann", 200).await;
    let detached = table.find("s").await.unwrap().unwrap();
    assert_eq!((detached.ran_eval, detached.expires_at), (true, Some(at(200))));
    // An eval of an earlier connection counts too.
    table.claim(claim("first", "second")).await.unwrap();
    let without_eval = Release { ran_eval: false, ..release("s", 2, 300) };
    assert_eq!(table.release(without_eval).await.unwrap(), Released::Detached);
    assert_eq!(table.find("s").await.unwrap().unwrap().expires_at, Some(at(300)));
}

async fn expired_session_cannot_be_claimed(table: &impl SessionTable) {
    create_detached(table, "s", "ann", 100).await;
    assert_eq!(table.claim(claim("first", "second")).await.unwrap(), None);
    let in_time = SessionClaim { now: at(99), ..claim("first", "second") };
    assert_eq!(table.claim(in_time).await.unwrap(), Some(2));
}

async fn expire_removes_what_is_over(table: &impl SessionTable) {
    for (id, until) in [("a", 100), ("b", 101), ("c", 102)] {
        create_detached(table, id, "ann", until).await;
    }
    table.create(record("attached", "ann")).await.unwrap();
    assert!(table.expire(OWNER, at(99)).await.unwrap().is_empty());
    assert!(table.expire("node-2", at(200)).await.unwrap().is_empty());
    let mut expired = table.expire(OWNER, at(101)).await.unwrap();
    expired.sort();
    assert_eq!(expired, ["a".into(), "b".into()]);
    assert!(table.expire(OWNER, at(101)).await.unwrap().is_empty());
    assert_eq!(ids(table).await, ["attached", "c"]);
}

async fn evict_removes_the_oldest_of_the_principal(table: &impl SessionTable) {
    create_detached(table, "bob", "bob", 1).await;
    for (id, until) in [("a", 103), ("b", 101), ("c", 102)] {
        create_detached(table, id, "ann", until).await;
    }
    // One that is attached is not counted.
    table.create(record("attached", "ann")).await.unwrap();
    assert_eq!(table.evict(OWNER, "ann", 3).await.unwrap(), None);
    assert_eq!(table.evict("node-2", "ann", 0).await.unwrap(), None);
    assert_eq!(table.evict(OWNER, "ann", 2).await.unwrap(), Some("b".into()));
    assert_eq!(table.evict(OWNER, "ann", 2).await.unwrap(), None);
    assert_eq!(table.evict(OWNER, "ann", 0).await.unwrap(), Some("c".into()));
    assert_eq!(ids(table).await, ["a", "attached", "bob"]);
}

async fn list_is_ordered_filtered_and_bounded(table: &impl SessionTable) {
    for (id, principal) in [("c", "ann"), ("a", "ann"), ("d", "bob"), ("b", "bob")] {
        table.create(record(id, principal)).await.unwrap();
    }
    assert_eq!(ids(table).await, ["a", "b", "c", "d"]);
    let listed = table.list(Some("bob"), 1).await.unwrap();
    assert!(listed.len() == 1 && &*listed[0].id == "b", "{listed:?}");
    assert_eq!(table.list(Some("bob"), 3).await.unwrap().len(), 2);
    assert!(table.list(Some("eve"), 3).await.unwrap().is_empty());
    assert!(table.list(None, 0).await.unwrap().is_empty());
}

/// One token, shown by several connections: each of them takes the session from the one before, and only the last keeps
/// it.
async fn concurrent_claims_leave_one_holder(table: &impl SessionTable) {
    create_detached(table, "s", "ann", 200).await;
    let tokens: Vec<String> = (0..8).map(|number| format!("next-{number}")).collect();
    let claims = tokens.iter().map(|next| table.claim(claim("first", next)));
    let numbers: Vec<u64> =
        join_all(claims).await.into_iter().map(|claimed| claimed.unwrap().unwrap()).collect();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (2..10).collect::<Vec<_>>(), "each has a number of its own");
    for &number in numbers.iter().filter(|number| **number != 9) {
        table.confirm("s", number, true).await.unwrap();
        assert_eq!(table.release(release("s", number, 300)).await.unwrap(), Released::Superseded);
    }
    table.confirm("s", 9, false).await.unwrap();
    let good: Vec<usize> = (0..tokens.len()).filter(|&at| numbers[at] == 9).collect();
    let found = table.find("s").await.unwrap().unwrap();
    let accepted: Vec<usize> =
        (0..tokens.len()).filter(|&at| found.tokens.accept(&TokenHash::new(&tokens[at]))).collect();
    assert_eq!(accepted, good, "one token is left, that of the last connection");
    assert!(!found.tokens.accept(&TokenHash::new("first")));
}

/// A session that is claimed while it expires is either claimed or expired, never both.
async fn concurrent_claims_and_expiry_agree(table: &impl SessionTable) {
    for round in 0..16 {
        create_detached(table, "s", "ann", 101).await;
        let (claim, expire) = (table.claim(claim("first", "second")), table.expire(OWNER, at(101)));
        let (claimed, expired) = if round % 2 == 0 {
            tokio::join!(claim, expire)
        } else {
            let (expired, claimed) = tokio::join!(expire, claim);
            (claimed, expired)
        };
        assert_ne!(claimed.unwrap().is_some(), !expired.unwrap().is_empty());
        table.remove(&["s".into()]).await.unwrap();
    }
}

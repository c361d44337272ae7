//! What the tables store per session, account and principal, and what is deleted past each limit.

use rusqlite::Connection;

use super::*;
use crate::bindings::exoclaw::wire::Usage;

const DAY: i64 = 86_400;

fn open() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    prepare(&connection, "p").unwrap();
    connection
}

fn session(account: &str, peer: &str) -> SessionId {
    let name = |text: &str| text.to_owned();
    SessionId {
        principal: name("p"),
        agent: name("default"),
        channel: name("w"),
        account: name(account),
        peer: name(peer),
    }
}

fn turn(at: i64, user: &str) -> Turn {
    Turn { at, user: user.to_owned(), assistant: format!("re {user}") }
}

fn fact(subject: &str, value: &str) -> Fact {
    Fact { subject: subject.to_owned(), value: value.to_owned() }
}

fn record(session: SessionId, input_tokens: u64, seconds: i64) -> UsageRecord {
    UsageRecord { session, model: "m".to_owned(), usage: Usage { input_tokens, output_tokens: 1 }, seconds }
}

#[test]
fn last_turns_are_returned_in_order() {
    let mut store = open();
    for (at, user) in [(1, "a"), (2, "b"), (3, "c")] {
        save_turn(&mut store, &session("u", "main"), &turn(at, user), &[]).unwrap();
    }
    save_turn(&mut store, &session("u", "other"), &turn(4, "d"), &[]).unwrap();
    assert_eq!(load_turns(&store, &session("u", "main"), 2).unwrap(), [turn(2, "b"), turn(3, "c")]);
    assert_eq!(load_turns(&store, &session("unknown", "main"), 2).unwrap(), []);
}

#[test]
fn cleared_session_has_no_turns_but_still_counts() {
    let mut store = open();
    save_turn(&mut store, &session("u", "main"), &turn(1, "a"), &[]).unwrap();
    assert_eq!(clear_turns(&store, &session("u", "main")).unwrap(), 1);
    assert_eq!(clear_turns(&store, &session("u", "main")).unwrap(), 0);
    assert_eq!(clear_turns(&store, &session("unknown", "main")).unwrap(), 0);
    assert_eq!(load_turns(&store, &session("u", "main"), 9).unwrap(), []);
    assert_eq!(count_sessions(&store).unwrap(), 1);
}

#[test]
fn repeated_use_counts_a_session_once() {
    let mut store = open();
    for (account, peer) in [("u", "main"), ("u", "main"), ("u", "other"), ("u:other", "main")] {
        touch_session(&mut store, &session(account, peer), 1).unwrap();
    }
    assert_eq!(count_sessions(&store).unwrap(), 3);
}

#[test]
fn facts_are_stored_per_account_and_replaced_by_subject() {
    let mut store = open();
    let (ada, bob) = (session("ada", "main"), session("bob", "main"));
    save_turn(&mut store, &ada, &turn(1, "x"), &[fact("name", "Ada"), fact("dog", "Luna")]).unwrap();
    save_turn(&mut store, &bob, &turn(1, "x"), &[fact("name", "Bob")]).unwrap();
    save_turn(&mut store, &session("ada", "phone"), &turn(2, "x"), &[fact("name", "Countess")]).unwrap();
    assert_eq!(load_facts(&store, "p", "w", "ada").unwrap(), [fact("name", "Countess"), fact("dog", "Luna")]);
    assert_eq!(load_facts(&store, "p", "w", "bob").unwrap(), [fact("name", "Bob")]);
    assert_eq!(load_facts(&store, "p", "other", "ada").unwrap(), []);
}

#[test]
fn usage_is_summed_by_session_day_and_month() {
    let mut store = open();
    let (ada, bob) = (session("ada", "main"), session("bob", "main"));
    record_usage(&mut store, &record(ada.clone(), 10, 0)).unwrap();
    record_usage(&mut store, &record(ada.clone(), 20, DAY)).unwrap();
    record_usage(&mut store, &record(bob.clone(), 40, DAY)).unwrap();
    let sums = |session, seconds| load_usage(&store, session, seconds).unwrap();
    assert_eq!(sums(Some(&ada), DAY), UsageTotals { session: 32, daily: 62, monthly: 73 });
    assert_eq!(sums(Some(&bob), 0), UsageTotals { session: 41, daily: 11, monthly: 73 });
    assert_eq!(sums(None, 40 * DAY), UsageTotals::default());
    let records: i64 = store.query_row("SELECT count(*) FROM calls", [], |row| row.get(0)).unwrap();
    assert_eq!(records, 3);
}

#[test]
fn usage_sums_saturate() {
    let mut store = open();
    let ada = session("ada", "main");
    for _ in 0..2 {
        record_usage(&mut store, &record(ada.clone(), u64::MAX, 0)).unwrap();
    }
    let max = u64::try_from(i64::MAX).unwrap();
    assert_eq!(
        load_usage(&store, Some(&ada), 0).unwrap(),
        UsageTotals { session: max, daily: max, monthly: max }
    );
}

#[test]
fn sessions_are_listed_by_last_use() {
    let mut store = open();
    save_turn(&mut store, &session("a", "main"), &turn(1, "x"), &[]).unwrap();
    record_usage(&mut store, &record(session("b", "main"), 4, 2)).unwrap();
    touch_session(&mut store, &session("a", "main"), 3).unwrap();
    let summaries = list_sessions(&store, "p", 9).unwrap();
    let expected = [
        SessionSummary { session: session("a", "main"), turns: 1, tokens: 0, used_at: 3 },
        SessionSummary { session: session("b", "main"), turns: 0, tokens: 5, used_at: 2 },
    ];
    assert_eq!(summaries, expected);
    assert_eq!(list_sessions(&store, "p", 1).unwrap().len(), 1);
}

#[test]
fn oldest_turns_past_the_limit_are_deleted() {
    let mut store = open();
    let ada = session("ada", "main");
    for at in 0..=as_limit(TURNS_PER_SESSION_MAX) {
        save_turn(&mut store, &ada, &turn(at, "x"), &[]).unwrap();
    }
    let turns = load_turns(&store, &ada, usize::MAX).unwrap();
    assert_eq!((turns.len(), turns[0].at), (TURNS_PER_SESSION_MAX, 1));
}

#[test]
fn oldest_facts_past_the_limit_are_deleted() {
    let mut store = open();
    let many: Vec<Fact> = (0..=FACTS_PER_ACCOUNT_MAX).map(|n| fact(&n.to_string(), "x")).collect();
    save_turn(&mut store, &session("a", "main"), &turn(1, "x"), &many[..FACTS_PER_ACCOUNT_MAX]).unwrap();
    assert_eq!(load_facts(&store, "p", "w", "a").unwrap().len(), FACTS_PER_ACCOUNT_MAX);
    save_turn(&mut store, &session("a", "main"), &turn(2, "x"), &many[FACTS_PER_ACCOUNT_MAX..]).unwrap();
    let stored = load_facts(&store, "p", "w", "a").unwrap();
    assert_eq!(stored.len(), FACTS_PER_ACCOUNT_MAX);
    assert!(!stored.contains(&fact("0", "x")));
}

#[test]
fn least_recently_used_session_is_evicted_with_its_turns() {
    let mut store = open();
    save_turn(&mut store, &session("old", "main"), &turn(1, "x"), &[]).unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                INSERT INTO sessions (principal, agent, channel, account, peer, used_at) SELECT 'p', 'd', 'w', i, 'main', i FROM n";
    store.execute(fill, [i64::try_from(SESSIONS_MAX).unwrap()]).unwrap();
    assert_eq!(count_sessions(&store).unwrap(), SESSIONS_MAX);
    touch_session(&mut store, &session("new", "main"), 5).unwrap();
    assert_eq!(count_sessions(&store).unwrap(), SESSIONS_MAX);
    let other = SessionId { principal: "other".to_owned(), ..session("new", "main") };
    touch_session(&mut store, &other, 0).unwrap();
    touch_session(&mut store, &session("newer", "main"), 5).unwrap();
    assert!(
        find_session(&store, &other).unwrap().is_some(),
        "only the principal with the most sessions loses one"
    );
    assert_eq!(find_session(&store, &session("old", "main")).unwrap(), None);
    let turns: i64 = store.query_row("SELECT count(*) FROM turns", [], |row| row.get(0)).unwrap();
    assert_eq!(turns, 0);
}

#[test]
fn oldest_call_records_past_the_limit_are_deleted() {
    let mut store = open();
    record_usage(&mut store, &record(session("a", "main"), 1, 0)).unwrap();
    let last = CALLS_RECORDED_MAX;
    store.execute("INSERT INTO calls VALUES (?1, 0, '', '', '', 0, 0)", [last]).unwrap();
    let first = |store: &Connection| {
        store.query_row("SELECT min(id) FROM calls", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(first(&store), 1);
    record_usage(&mut store, &record(session("a", "main"), 1, 0)).unwrap();
    assert_eq!(first(&store), last);
}

#[test]
fn sessions_and_facts_of_principals_are_separate() {
    let mut store = open();
    let ada = SessionId { principal: "ada".to_owned(), ..session("u", "main") };
    let bob = SessionId { principal: "bob".to_owned(), ..session("u", "main") };
    save_turn(&mut store, &ada, &turn(1, "secret"), &[fact("name", "Ada")]).unwrap();
    save_turn(&mut store, &bob, &turn(1, "hi"), &[]).unwrap();
    assert_eq!(load_turns(&store, &bob, 9).unwrap(), [turn(1, "hi")]);
    assert_eq!(load_facts(&store, "bob", "w", "u").unwrap(), []);
    assert_eq!(list_sessions(&store, "bob", 9).unwrap().len(), 1);
    assert_eq!(count_sessions_of(&store, "bob").unwrap(), 1);
    assert_eq!(clear_turns(&store, &bob).unwrap(), 1);
    assert_eq!(load_turns(&store, &ada, 9).unwrap(), [turn(1, "secret")]);
}

#[test]
fn agent_with_sessions_cannot_be_claimed_by_another() {
    let mut store = open();
    assert!(claim_agent(&mut store, "default", "ada").unwrap());
    assert!(claim_agent(&mut store, "default", "bob").unwrap(), "it has no sessions");
    assert!(claim_agent(&mut store, "default", "ada").unwrap());
    touch_session(&mut store, &session("u", "main"), 1).unwrap();
    assert!(!claim_agent(&mut store, "default", "bob").unwrap());
    assert!(claim_agent(&mut store, "default", "ada").unwrap());
}

#[test]
fn old_file_is_migrated_to_the_legacy_principal() {
    let store = Connection::open_in_memory().unwrap();
    let old_tables = TABLES.replace("principal TEXT NOT NULL,\n", "").replace("principal, ", "");
    store.execute_batch(&old_tables).unwrap();
    store
        .execute_batch(
            "INSERT INTO sessions (id, agent, channel, account, peer, used_at, tokens) VALUES (3, 'default', 'w', 'u', 'main', 1, 9);
             INSERT INTO turns (session, at, user, assistant) VALUES (3, 1, 'a', 're a');
             INSERT INTO facts (channel, account, subject, value) VALUES ('w', 'u', 'name', 'Ada');",
        )
        .unwrap();
    for _ in 0..2 {
        prepare(&store, "p").unwrap();
        assert_eq!(load_turns(&store, &session("u", "main"), 9).unwrap(), [turn(1, "a")]);
        assert_eq!(load_facts(&store, "p", "w", "u").unwrap(), [fact("name", "Ada")]);
        assert_eq!(list_sessions(&store, "p", 9).unwrap()[0].tokens, 9);
    }
    let mut store = store;
    save_turn(&mut store, &session("u", "main"), &turn(2, "b"), &[]).unwrap();
    store.execute("DELETE FROM sessions", []).unwrap();
    assert_eq!(
        store.query_row("SELECT count(*) FROM turns", [], |row| row.get(0)),
        Ok(0),
        "turns are deleted too"
    );
}

#[test]
fn owners_past_the_limit_without_sessions_are_deleted() {
    let mut store = open();
    touch_session(&mut store, &session("u", "main"), 1).unwrap();
    assert!(claim_agent(&mut store, "default", "ada").unwrap());
    let fill = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                INSERT INTO owners SELECT i, 'ada' FROM n";
    store.execute(fill, [i64::try_from(OWNERS_MAX).unwrap()]).unwrap();
    let count =
        |store: &Connection| store.query_row("SELECT count(*) FROM owners", [], |row| as_count(row, 0));
    assert_eq!(count(&store), Ok(OWNERS_MAX));
    assert!(claim_agent(&mut store, "late", "ada").unwrap());
    assert_eq!(count(&store), Ok(2), "the one with sessions, and the new one");
    assert!(!claim_agent(&mut store, "default", "bob").unwrap());
}

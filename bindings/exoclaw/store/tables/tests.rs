//! What is remembered, for whom, and what is forgotten when there is too much.

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

fn spent(session: SessionId, input_tokens: u64, seconds: i64) -> Spent {
    Spent { session, model: "m".to_owned(), usage: Usage { input_tokens, output_tokens: 1 }, seconds }
}

#[test]
fn the_last_turns_of_a_session_come_back_in_order() {
    let mut store = open();
    for (at, user) in [(1, "a"), (2, "b"), (3, "c")] {
        keep_turn(&mut store, &session("u", "main"), &turn(at, user), &[]).unwrap();
    }
    keep_turn(&mut store, &session("u", "other"), &turn(4, "d"), &[]).unwrap();
    assert_eq!(turns(&store, &session("u", "main"), 2).unwrap(), [turn(2, "b"), turn(3, "c")]);
    assert_eq!(turns(&store, &session("nobody", "main"), 2).unwrap(), []);
}

#[test]
fn a_cleared_session_has_no_turns_and_is_still_counted() {
    let mut store = open();
    keep_turn(&mut store, &session("u", "main"), &turn(1, "a"), &[]).unwrap();
    assert_eq!(clear(&store, &session("u", "main")).unwrap(), 1);
    assert_eq!(clear(&store, &session("u", "main")).unwrap(), 0);
    assert_eq!(clear(&store, &session("nobody", "main")).unwrap(), 0);
    assert_eq!(turns(&store, &session("u", "main"), 9).unwrap(), []);
    assert_eq!(count_sessions(&store).unwrap(), 1);
}

#[test]
fn a_session_is_counted_once_however_often_it_is_used() {
    let mut store = open();
    for (account, peer) in [("u", "main"), ("u", "main"), ("u", "other"), ("u:other", "main")] {
        touch(&mut store, &session(account, peer), 1).unwrap();
    }
    assert_eq!(count_sessions(&store).unwrap(), 3);
}

#[test]
fn facts_belong_to_an_account_and_are_replaced() {
    let mut store = open();
    let (ada, bob) = (session("ada", "main"), session("bob", "main"));
    keep_turn(&mut store, &ada, &turn(1, "x"), &[fact("name", "Ada"), fact("dog", "Luna")]).unwrap();
    keep_turn(&mut store, &bob, &turn(1, "x"), &[fact("name", "Bob")]).unwrap();
    keep_turn(&mut store, &session("ada", "phone"), &turn(2, "x"), &[fact("name", "Countess")]).unwrap();
    assert_eq!(facts(&store, "p", "w", "ada").unwrap(), [fact("name", "Countess"), fact("dog", "Luna")]);
    assert_eq!(facts(&store, "p", "w", "bob").unwrap(), [fact("name", "Bob")]);
    assert_eq!(facts(&store, "p", "other", "ada").unwrap(), []);
}

#[test]
fn what_was_used_is_summed_by_session_day_and_month() {
    let mut store = open();
    let (ada, bob) = (session("ada", "main"), session("bob", "main"));
    spend(&mut store, &spent(ada.clone(), 10, 0)).unwrap();
    spend(&mut store, &spent(ada.clone(), 20, DAY)).unwrap();
    spend(&mut store, &spent(bob.clone(), 40, DAY)).unwrap();
    let sums = |session, seconds| used(&store, session, seconds).unwrap();
    assert_eq!(sums(Some(&ada), DAY), Used { session: 32, daily: 62, monthly: 73 });
    assert_eq!(sums(Some(&bob), 0), Used { session: 41, daily: 11, monthly: 73 });
    assert_eq!(sums(None, 40 * DAY), Used::default());
    let recorded: i64 = store.query_row("SELECT count(*) FROM calls", [], |row| row.get(0)).unwrap();
    assert_eq!(recorded, 3);
}

#[test]
fn sums_stop_at_their_largest_number() {
    let mut store = open();
    let ada = session("ada", "main");
    for _ in 0..2 {
        spend(&mut store, &spent(ada.clone(), u64::MAX, 0)).unwrap();
    }
    let most = u64::try_from(i64::MAX).unwrap();
    assert_eq!(used(&store, Some(&ada), 0).unwrap(), Used { session: most, daily: most, monthly: most });
}

#[test]
fn sessions_are_listed_by_their_last_use() {
    let mut store = open();
    keep_turn(&mut store, &session("a", "main"), &turn(1, "x"), &[]).unwrap();
    spend(&mut store, &spent(session("b", "main"), 4, 2)).unwrap();
    touch(&mut store, &session("a", "main"), 3).unwrap();
    let listed = sessions(&store, "p", 9).unwrap();
    let expected = [
        Listed { session: session("a", "main"), turns: 1, tokens: 0, used_at: 3 },
        Listed { session: session("b", "main"), turns: 0, tokens: 5, used_at: 2 },
    ];
    assert_eq!(listed, expected);
    assert_eq!(sessions(&store, "p", 1).unwrap().len(), 1);
}

#[test]
fn of_too_many_turns_the_oldest_are_forgotten() {
    let mut store = open();
    let ada = session("ada", "main");
    for at in 0..=as_limit(TURNS_PER_SESSION_MAX) {
        keep_turn(&mut store, &ada, &turn(at, "x"), &[]).unwrap();
    }
    let kept = turns(&store, &ada, usize::MAX).unwrap();
    assert_eq!((kept.len(), kept[0].at), (TURNS_PER_SESSION_MAX, 1));
}

#[test]
fn of_too_many_facts_the_oldest_are_forgotten() {
    let mut store = open();
    let many: Vec<Fact> = (0..=FACTS_PER_ACCOUNT_MAX).map(|n| fact(&n.to_string(), "x")).collect();
    keep_turn(&mut store, &session("a", "main"), &turn(1, "x"), &many[..FACTS_PER_ACCOUNT_MAX]).unwrap();
    assert_eq!(facts(&store, "p", "w", "a").unwrap().len(), FACTS_PER_ACCOUNT_MAX);
    keep_turn(&mut store, &session("a", "main"), &turn(2, "x"), &many[FACTS_PER_ACCOUNT_MAX..]).unwrap();
    let kept = facts(&store, "p", "w", "a").unwrap();
    assert_eq!(kept.len(), FACTS_PER_ACCOUNT_MAX);
    assert!(!kept.contains(&fact("0", "x")));
}

#[test]
fn of_too_many_sessions_the_least_used_is_forgotten_with_its_turns() {
    let mut store = open();
    keep_turn(&mut store, &session("old", "main"), &turn(1, "x"), &[]).unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                INSERT INTO sessions (principal, agent, channel, account, peer, used_at) SELECT 'p', 'd', 'w', i, 'main', i FROM n";
    store.execute(fill, [i64::try_from(SESSIONS_MAX).unwrap()]).unwrap();
    assert_eq!(count_sessions(&store).unwrap(), SESSIONS_MAX);
    touch(&mut store, &session("new", "main"), 5).unwrap();
    assert_eq!(count_sessions(&store).unwrap(), SESSIONS_MAX);
    let other = SessionId { principal: "other".to_owned(), ..session("new", "main") };
    touch(&mut store, &other, 0).unwrap();
    touch(&mut store, &session("newer", "main"), 5).unwrap();
    assert!(row_of(&store, &other).unwrap().is_some(), "the principal with the most sessions loses one");
    assert_eq!(row_of(&store, &session("old", "main")).unwrap(), None);
    let turns: i64 = store.query_row("SELECT count(*) FROM turns", [], |row| row.get(0)).unwrap();
    assert_eq!(turns, 0);
}

#[test]
fn of_too_many_recorded_calls_the_oldest_are_forgotten() {
    let mut store = open();
    spend(&mut store, &spent(session("a", "main"), 1, 0)).unwrap();
    let last = CALLS_RECORDED_MAX;
    store.execute("INSERT INTO calls VALUES (?1, 0, '', '', '', 0, 0)", [last]).unwrap();
    let first = |store: &Connection| {
        store.query_row("SELECT min(id) FROM calls", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(first(&store), 1);
    spend(&mut store, &spent(session("a", "main"), 1, 0)).unwrap();
    assert_eq!(first(&store), last);
}

#[test]
fn sessions_and_facts_of_principals_are_apart() {
    let mut store = open();
    let ada = SessionId { principal: "ada".to_owned(), ..session("u", "main") };
    let bob = SessionId { principal: "bob".to_owned(), ..session("u", "main") };
    keep_turn(&mut store, &ada, &turn(1, "secret"), &[fact("name", "Ada")]).unwrap();
    keep_turn(&mut store, &bob, &turn(1, "hi"), &[]).unwrap();
    assert_eq!(turns(&store, &bob, 9).unwrap(), [turn(1, "hi")]);
    assert_eq!(facts(&store, "bob", "w", "u").unwrap(), []);
    assert_eq!(sessions(&store, "bob", 9).unwrap().len(), 1);
    assert_eq!(count_sessions_of(&store, "bob").unwrap(), 1);
    assert_eq!(clear(&store, &bob).unwrap(), 1);
    assert_eq!(turns(&store, &ada, 9).unwrap(), [turn(1, "secret")]);
}

#[test]
fn agent_belongs_to_a_principal_for_as_long_as_it_has_sessions() {
    let mut store = open();
    assert!(claim(&mut store, "default", "ada").unwrap());
    assert!(claim(&mut store, "default", "bob").unwrap(), "nothing was said to it");
    assert!(claim(&mut store, "default", "ada").unwrap());
    touch(&mut store, &session("u", "main"), 1).unwrap();
    assert!(!claim(&mut store, "default", "bob").unwrap());
    assert!(claim(&mut store, "default", "ada").unwrap());
}

#[test]
fn file_of_an_older_version_belongs_to_the_former_principal() {
    let store = Connection::open_in_memory().unwrap();
    let former = TABLES.replace("principal TEXT NOT NULL,\n", "").replace("principal, ", "");
    store.execute_batch(&former).unwrap();
    store
        .execute_batch(
            "INSERT INTO sessions (id, agent, channel, account, peer, used_at, tokens) VALUES (3, 'default', 'w', 'u', 'main', 1, 9);
             INSERT INTO turns (session, at, user, assistant) VALUES (3, 1, 'a', 're a');
             INSERT INTO facts (channel, account, subject, value) VALUES ('w', 'u', 'name', 'Ada');",
        )
        .unwrap();
    for _ in 0..2 {
        prepare(&store, "p").unwrap();
        assert_eq!(turns(&store, &session("u", "main"), 9).unwrap(), [turn(1, "a")]);
        assert_eq!(facts(&store, "p", "w", "u").unwrap(), [fact("name", "Ada")]);
        assert_eq!(sessions(&store, "p", 9).unwrap()[0].tokens, 9);
    }
    let mut store = store;
    keep_turn(&mut store, &session("u", "main"), &turn(2, "b"), &[]).unwrap();
    store.execute("DELETE FROM sessions", []).unwrap();
    assert_eq!(store.query_row("SELECT count(*) FROM turns", [], |row| row.get(0)), Ok(0), "turns go along");
}

#[test]
fn agents_without_sessions_are_forgotten_when_there_are_too_many() {
    let mut store = open();
    touch(&mut store, &session("u", "main"), 1).unwrap();
    assert!(claim(&mut store, "default", "ada").unwrap());
    let fill = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                INSERT INTO owners SELECT i, 'ada' FROM n";
    store.execute(fill, [i64::try_from(OWNERS_MAX).unwrap()]).unwrap();
    let count =
        |store: &Connection| store.query_row("SELECT count(*) FROM owners", [], |row| as_count(row, 0));
    assert_eq!(count(&store), Ok(OWNERS_MAX));
    assert!(claim(&mut store, "late", "ada").unwrap());
    assert_eq!(count(&store), Ok(2), "the one with sessions, and the new one");
    assert!(!claim(&mut store, "default", "bob").unwrap());
}

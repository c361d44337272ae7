//! The tables at their limits, in virtual time.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::*;

#[derive(Default)]
struct FakeSession {
    is_lost: AtomicBool,
}

impl SessionState for FakeSession {
    fn is_open(&self) -> bool {
        !self.is_lost.load(Ordering::Relaxed)
    }
}

struct FakeExecution {
    session: &'static str,
    ended_at: Mutex<Option<Instant>>,
}

impl ExecutionState for FakeExecution {
    fn session(&self) -> &str {
        self.session
    }

    fn ended_at(&self) -> Option<Instant> {
        *self.ended_at.lock()
    }
}

type FakeTables = Tables<FakeSession, FakeExecution>;

fn settings() -> McpSettings {
    McpSettings { sessions_max: 2, executions_max: 2, artifacts_bytes_max: 10, ..McpSettings::default() }
}

fn add_session(tables: &mut FakeTables, handle: &str, now: Instant) -> Arc<FakeSession> {
    tables.reserve_session(&settings(), now).unwrap();
    let session = Arc::new(FakeSession::default());
    tables.on_opened(Some((handle.to_owned(), Arc::clone(&session))), now);
    session
}

fn add_execution(tables: &mut FakeTables, handle: &str, key: Option<&str>) -> Option<Arc<FakeExecution>> {
    let execution = Arc::new(FakeExecution { session: "s1", ended_at: Mutex::default() });
    let key = key.map(|key| (key.to_owned(), 7));
    tables.add_execution(&settings(), handle.to_owned(), Arc::clone(&execution), key).ok()?;
    Some(execution)
}

#[test]
fn session_past_the_limit_replaces_one_that_is_unused() {
    let (mut tables, start) = (FakeTables::default(), Instant::now());
    add_session(&mut tables, "s1", start);
    add_session(&mut tables, "s2", start + Duration::from_secs(1));
    let soon = start + ROOM_IDLE_MIN;
    assert!(tables.session("s2", soon).is_some());
    let early = soon - Duration::from_millis(1);
    assert_eq!(tables.reserve_session(&settings(), early).err(), Some(ToolError::TooManySessions(2)));
    assert!(tables.reserve_session(&settings(), soon).unwrap().is_some());
    assert!(tables.session("s1", soon).is_none() && tables.session("s2", soon).is_some());
    // The reserved place counts until it is given back.
    assert!(tables.reserve_session(&settings(), soon).is_err());
    tables.on_opened(None, soon);
    assert!(tables.reserve_session(&settings(), soon).unwrap().is_none());
}

#[test]
fn session_with_a_running_execution_is_not_replaced() {
    let (mut tables, start) = (FakeTables::default(), Instant::now());
    add_session(&mut tables, "s1", start);
    add_session(&mut tables, "s2", start);
    let running = add_execution(&mut tables, "e1", None).unwrap();
    let later = start + ROOM_IDLE_MIN;
    assert!(tables.session("s2", later).is_some());
    assert!(tables.reserve_session(&settings(), later).is_err());
    *running.ended_at.lock() = Some(later);
    assert!(tables.reserve_session(&settings(), later).is_ok());
    assert!(tables.execution("e1").is_none());
}

#[test]
fn execution_past_the_limit_replaces_one_that_ended() {
    let mut tables = FakeTables::default();
    let first = add_execution(&mut tables, "e1", Some("k")).unwrap();
    add_execution(&mut tables, "e2", None).unwrap();
    assert!(add_execution(&mut tables, "e3", None).is_none());
    assert_eq!(tables.keyed("k").map(|keyed| keyed.request), Some(7));
    *first.ended_at.lock() = Some(Instant::now());
    assert!(add_execution(&mut tables, "e3", None).is_some());
    assert!(tables.execution("e1").is_none() && tables.keyed("k").is_none());
}

#[test]
fn what_is_unused_for_long_expires() {
    let (mut tables, start) = (FakeTables::default(), Instant::now());
    let lost = add_session(&mut tables, "s1", start);
    add_session(&mut tables, "s2", start);
    *add_execution(&mut tables, "e1", None).unwrap().ended_at.lock() = Some(start);
    let settings = settings();
    let early = start + settings.execution_kept() - Duration::from_millis(1);
    assert!(tables.expire(&settings, early).is_empty() && tables.execution("e1").is_some());
    assert!(tables.expire(&settings, start + settings.execution_kept()).is_empty());
    assert!(tables.execution("e1").is_none());
    lost.is_lost.store(true, Ordering::Relaxed);
    assert_eq!(tables.expire(&settings, start).len(), 1);
    assert_eq!(tables.expire(&settings, start + settings.session_idle()).len(), 1);
    assert!(tables.is_empty());
}

#[test]
fn artifacts_past_the_limit_push_out_the_oldest() {
    let mut tables = FakeTables::default();
    for (id, text) in [("a1", "12345"), ("a2", "12345"), ("a3", "1")] {
        tables.keep_artifact(&settings(), id.to_owned(), text.into());
    }
    assert!(tables.artifact("a1").is_none());
    assert_eq!(tables.artifact("a2").as_deref(), Some("12345"));
    tables.keep_artifact(&settings(), "a4".to_owned(), "longer than all".into());
    assert!(tables.artifact("a3").is_none() && tables.artifact("a4").is_none());
}

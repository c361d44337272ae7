//! Connections come, stall, go, and take the session from each other.

use super::*;

#[test]
fn connection_taking_over_closes_the_one_before() {
    let mut f = Fixture::attached();
    f.attach(2, CLIENT);
    assert_eq!(f.lines(), ["1: close TakenOver", "attached 2 0"]);
    f.eval(1, 7, "1");
    assert_eq!(f.begin(), "nothing");
    f.send(ToSession::Detach { connection: 1 });
    assert_eq!(f.session.state.connection(), Some(2));
}

#[test]
fn attach_of_an_older_connection_is_refused() {
    let mut f = Fixture::attached();
    f.attach(3, CLIENT);
    f.lines();
    let listed = Arc::clone(f.session.latest_catalog());
    let older = ToSession::Attach { connection: 2, bindings: catalog(0, CLIENT), listed, schema_bytes: 0 };
    f.send(older.clone());
    assert_eq!(f.lines(), ["2: close TakenOver"]);
    assert_eq!(f.session.state.connection(), Some(3));
    // Also when the newer one is gone: the host knows the session as detached.
    f.send(ToSession::Detach { connection: 3 });
    f.send(older);
    assert_eq!(f.lines(), ["2: close TakenOver"]);
    assert_eq!(f.session.state.connection(), None);
}

#[test]
fn attach_counts_evals_that_wait_or_run() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.eval(1, 2, "b");
    f.begin_eval_with_calls(&[]);
    f.send(ToSession::Detach { connection: 1 });
    f.attach(2, CLIENT);
    assert_eq!(f.lines(), ["attached 2 2"]);
}

#[test]
fn eval_of_a_gone_connection_runs_without_an_answer() {
    let mut f = Fixture::attached();
    let charge = f.eval(1, 1, "a");
    f.send(ToSession::Detach { connection: 1 });
    f.attach(2, CLIENT);
    f.lines();
    f.run_eval(json!(5));
    let sent: Vec<String> = f.messages().iter().map(line).collect();
    assert_eq!(sent, ["eval 1 done".to_owned(), format!("discharge {charge}")]);
}

#[test]
fn stalled_connection_is_heard_and_gets_nothing() {
    let mut f = Fixture::attached();
    f.send(ToSession::Stalled { connection: 1 });
    f.eval(1, 1, "a");
    f.invoke(1, 2, "session.info", json!({}));
    assert_eq!(f.begin(), "Eval(1): eval a");
    f.end_ok(json!(1));
    assert!(f.lines().is_empty());
    f.send(ToSession::Detach { connection: 1 });
    f.eval(1, 3, "b");
    assert_eq!(f.begin(), "nothing");
}

#[test]
fn stalled_connection_is_not_heard_after_a_resume() {
    let mut f = Fixture::attached();
    f.send(ToSession::Stalled { connection: 1 });
    f.attach(2, CLIENT);
    let charge = f.eval(1, 1, "a");
    let sent: Vec<String> = f.messages().iter().map(line).collect();
    assert_eq!(sent.last(), Some(&format!("discharge {charge}")));
    assert_eq!(f.begin(), "nothing");
}

#[test]
fn stall_of_another_connection_changes_nothing() {
    let mut f = Fixture::attached();
    f.send(ToSession::Stalled { connection: 9 });
    f.send(ToSession::Detach { connection: 9 });
    assert_eq!((f.session.state.connection(), f.session.state.stalled), (Some(1), None));
}

#[test]
fn detach_fails_calls_and_releases_functions() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    let call = f.call_client("tool", json!(1));
    f.export(RefHolder::Client, 7);
    f.end();
    f.send(ToSession::Detach { connection: 1 });
    assert_eq!(f.session.state.references.held_by(RefHolder::Client), 0);
    assert_eq!(f.freed(), [3]);
    assert_eq!(f.begin(), format!("Eval(1): settle {call}=PeerGone"));
}

#[test]
fn bindings_are_announced_before_anything_else_runs() {
    let mut f = Fixture::new();
    let (bindings, listed) = (catalog(0, CLIENT), catalog(1, SERVER));
    f.send(ToSession::Attach { connection: 1, bindings, listed, schema_bytes: 5 });
    f.eval(1, 1, "a");
    assert_eq!(f.begin(), "Background: bindings");
    f.end();
    assert_eq!(f.begin(), "Eval(1): eval a");
    assert_eq!(f.session.info().memory_bytes, 5);
}

#[test]
fn catalog_that_changed_is_seen_from_the_next_eval_on() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin_eval_with_calls(&["tool"]);
    f.send(ToSession::Catalog(catalog(2, &["echo", "fresh"])));
    f.eval(1, 2, "b");
    f.answer(1, 1, json!(1));
    assert_eq!(f.begin(), "Eval(1): settle 1=1");
    assert!(!f.session.state.catalog.contains("fresh"));
    f.end_ok(json!(1));
    assert_eq!(f.begin(), "Background: bindings");
    assert!(f.session.state.catalog.contains("fresh") && f.session.state.next_catalog.is_none());
    f.end();
    assert_eq!(f.begin(), "Eval(2): eval b");
}

#[test]
fn end_answers_everything_and_closes() {
    let cases = [(Closing::ByClient, "SessionClosed"), (Closing::GoingAway, "Cancelled")];
    for (closing, kind) in cases {
        let mut f = Fixture::attached();
        f.eval(1, 1, "a");
        f.eval(1, 2, "b");
        f.begin_eval_with_calls(&["tool"]);
        f.invoke(1, 3, "echo", json!(1));
        f.lines();
        f.send(ToSession::End(closing));
        assert!(f.session.is_ending());
        f.session.finish(f.now);
        f.collect();
        let expected = [
            "1: give up 1".to_owned(),
            format!("1: answer 1 {kind}"),
            format!("1: answer 2 {kind}"),
            "cancel handler 2".to_owned(),
            format!("1: answer 3 {kind}"),
            format!("ended {closing:?} Some(1)"),
        ];
        assert_eq!(f.lines(), expected);
    }
}

#[test]
fn end_in_a_turn_asks_it_to_stop() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.send(ToSession::End(Closing::GoingAway));
    assert_eq!((f.stops(), f.session.is_ending()), (vec![Stop::Closed], true));
    f.send(ToSession::End(Closing::Fault));
    assert_eq!(f.session.state.ending, Some(Closing::GoingAway));
}

//! Keyed evals run once.

use super::*;

#[test]
fn keyed_eval_sent_again_joins_the_run() {
    let mut f = Fixture::attached();
    let first = f.keyed_eval(1, 1, "a", "k");
    let second = f.keyed_eval(1, 2, "a", "k");
    assert_eq!(f.lines(), [format!("drop text {second}")]);
    f.begin();
    let third = f.keyed_eval(1, 3, "a", "k");
    f.end_ok(json!(4));
    let mut expected = vec![format!("drop text {third}"), "eval 1 done".into()];
    for (id, charge) in [(1, first), (2, second), (3, third)] {
        expected.push(format!(r#"1: answer {id} {{"value":4}}"#));
        expected.push(format!("discharge {charge}"));
    }
    let sent: Vec<String> = f.messages().iter().map(line).collect();
    assert_eq!(sent, expected);
}

#[test]
fn keyed_eval_sent_after_its_end_gets_the_outcome() {
    for outcome in [Ok(json!(4)), Err(Kind::EvalError)] {
        let mut f = Fixture::attached();
        f.keyed_eval(1, 1, "a", "k");
        f.begin();
        f.end_settled(outcome, Vec::new());
        let first = f.lines().join("").replace("answer 1", "answer 2");
        f.keyed_eval(1, 2, "a", "k");
        assert_eq!(f.lines(), [first]);
        assert_eq!(f.begin(), "nothing");
    }
}

#[test]
fn key_with_other_code_conflicts() {
    let mut f = Fixture::attached();
    f.keyed_eval(1, 1, "a", "k");
    f.keyed_eval(1, 2, "b", "k");
    assert_eq!(f.lines(), ["1: answer 2 KeyConflict"]);
}

#[test]
fn key_of_a_refused_eval_is_free() {
    let mut f = Fixture::attached_with(|limits| limits.queued_evals_max = 1);
    f.eval(1, 1, "a");
    f.keyed_eval(1, 2, "b", "k");
    assert_eq!(f.lines(), ["1: answer 2 QueueFull"]);
    f.run_eval(json!(1));
    f.keyed_eval(1, 3, "c", "k");
    assert_eq!(f.begin(), "Eval(2): eval c");
}

#[test]
fn key_of_a_cancelled_eval_keeps_the_error() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.keyed_eval(1, 2, "b", "k");
    f.invoke(1, 3, "session.cancel", json!({"evalId": 2}));
    f.keyed_eval(1, 4, "b", "k");
    let expected = ["1: answer 2 Cancelled", r#"1: answer 3 {"value":[2]}"#, "1: answer 4 Cancelled"];
    assert_eq!(f.lines(), expected);
}

#[test]
fn keyed_outcome_exports_its_functions_anew() {
    let mut f = Fixture::attached();
    f.keyed_eval(1, 1, "a", "k");
    f.begin();
    let number = f.export(RefHolder::Client, 7);
    f.end_settled(Ok(json!({"$fn": "f1"})), vec![number]);
    assert_eq!(f.lines(), [r#"1: answer 1 {"value":{"$fn":"f1"}}"#]);
    f.send(ToSession::Detach { connection: 1 });
    assert!(f.freed().is_empty(), "the outcome holds it");
    f.attach(2, CLIENT);
    f.keyed_eval(2, 1, "a", "k");
    assert_eq!(f.lines(), ["attached 2 0", r#"2: answer 1 {"value":{"$fn":"f2"}}"#]);
    f.invoke_function(2, 2, "f2");
    assert_eq!(f.begin(), "Invocation(1): call root 1");
}

#[test]
fn keyed_outcome_for_a_stalled_connection_exports_nothing() {
    let mut f = Fixture::attached();
    f.keyed_eval(1, 1, "a", "k");
    f.begin();
    let number = f.export(RefHolder::Client, 7);
    f.end_settled(Ok(json!({"$fn": "f1"})), vec![number]);
    f.send(ToSession::Stalled { connection: 1 });
    f.keyed_eval(1, 2, "a", "k");
    assert_eq!(f.session.state.references.held_by(RefHolder::Client), 0);
}

#[test]
fn keyed_eval_of_a_gone_connection_is_joined_after_a_resume() {
    let mut f = Fixture::attached();
    f.keyed_eval(1, 1, "a", "k");
    f.begin_eval_with_calls(&["tool"]);
    f.attach(2, CLIENT);
    f.keyed_eval(2, 1, "a", "k");
    f.lines();
    assert_eq!(f.begin(), "Eval(1): settle 1=PeerGone");
    f.end_ok(json!(3));
    assert_eq!(f.lines(), [r#"2: answer 1 {"value":3}"#]);
}

#[test]
fn keyed_eval_that_hit_a_memory_limit_is_joined() {
    let mut f = Fixture::attached();
    f.keyed_eval(1, 1, "a", "k");
    f.begin();
    f.end_stopped(Stop::Memory);
    f.keyed_eval(1, 2, "a", "k");
    assert_eq!(f.begin(), "Background: recover");
    f.keyed_eval(1, 3, "a", "k");
    f.lines();
    f.end();
    let answers: Vec<String> = (1..=3).map(|id| format!("1: answer {id} MemoryLimit")).collect();
    assert_eq!(f.lines(), answers);
    assert_eq!(f.begin(), "nothing", "it does not run a second time");
}

#[test]
fn reset_forgets_keys() {
    let mut f = Fixture::attached();
    f.keyed_eval(1, 1, "a", "k");
    f.run_eval(json!(1));
    f.keyed_eval(1, 2, "b", "l");
    f.begin_eval_with_calls(&["tool"]);
    f.invoke(1, 3, "session.reset", json!({}));
    assert_eq!(f.replace_context(true), 1);
    f.run_bindings_turn();
    for (id, key) in [(4, "k"), (5, "l")] {
        f.keyed_eval(1, id, "other", key);
        assert!(f.begin().ends_with(": eval other"));
        f.end_ok(json!(1));
    }
}

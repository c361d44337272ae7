//! Memory limits: freeing, replacing the context, and what is lost then.

use super::*;

/// An eval of request 1 that hit the memory limit, with the turn that frees memory begun.
fn recovering(change: impl FnOnce(&mut Fixture)) -> Fixture {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.print("x");
    change(&mut f);
    f.end_stopped(Stop::Memory);
    assert!(f.lines().iter().all(|line| !line.contains("answer 1 ")));
    assert_eq!(f.begin(), "Background: recover");
    f
}

fn answered_data(f: &mut Fixture) -> Value {
    let data = f.messages().into_iter().find_map(|message| match message {
        FromSession::Client { event: ToClient::Answered { outcome: Err(error), .. }, .. } => error.data,
        _ => None,
    });
    data.unwrap()
}

#[test]
fn eval_past_the_memory_limit_is_answered_after_freeing() {
    let mut f = recovering(|_| {});
    f.eval(1, 2, "b");
    f.end();
    let data = answered_data(&mut f);
    assert_eq!((&data["kind"], &data["console"][0]["text"]), (&json!("MemoryLimit"), &json!("x")));
    assert!(data.get("sessionLost").is_none());
    assert_eq!(f.begin(), "Eval(2): eval b");
}

#[test]
fn eval_past_the_memory_limit_loses_the_context_without_room() {
    let mut f = recovering(|f| {
        f.export(RefHolder::Client, 1);
        f.session.state.timers.set(1, f.now, ChargedTo::Eval(1));
    });
    f.eval(1, 2, "b");
    f.end_with(TurnReport { recovered: Some(false), ..TurnReport::default() });
    assert!(f.lines().is_empty());
    assert_eq!(f.replace_context(true), 1);
    let data = answered_data(&mut f);
    assert_eq!((&data["sessionLost"], &data["console"][0]["text"]), (&json!(true), &json!("x")));
    assert!(f.session.state.references.len() == 0 && f.session.state.timers.is_empty());
    f.run_bindings_turn();
    assert_eq!(f.begin(), "Eval(2): eval b", "what waited goes on");
}

#[test]
fn context_that_cannot_be_replaced_ends_the_session() {
    let mut f = recovering(|_| {});
    f.end_with(TurnReport { recovered: Some(false), ..TurnReport::default() });
    f.replace_context(false);
    assert_eq!(f.lines(), ["1: answer 1 MemoryLimit"]);
    assert_eq!(f.session.state.ending, Some(Closing::Fault));
}

#[test]
fn invocations_fail_when_the_context_is_lost() {
    let mut f = Fixture::attached();
    f.export(RefHolder::Client, 1);
    f.invoke_function(1, 2, "f1");
    f.begin();
    f.end();
    f.eval(1, 1, "a");
    f.begin();
    f.end_stopped(Stop::Memory);
    f.begin();
    f.end_with(TurnReport { recovered: Some(false), ..TurnReport::default() });
    assert_eq!(f.lines(), ["1: answer 2 MemoryLimit"]);
    f.replace_context(true);
    assert_eq!(f.lines(), ["1: answer 1 MemoryLimit"]);
}

#[test]
fn overdrawn_context_is_relieved_once_per_turn() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.session.set_context(ContextFacts { is_overdrawn: true, ..ContextFacts::default() });
    f.end_ok(json!(1));
    assert_eq!(f.begin(), "Background: recover");
    f.end();
    assert_eq!(f.begin(), "nothing", "it is tried again after the next turn");
}

#[test]
fn overdrawn_context_without_room_starts_over() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.eval(1, 2, "b");
    f.begin();
    f.call_client("tool", json!(1));
    f.session.set_context(ContextFacts { is_overdrawn: true, ..ContextFacts::default() });
    f.end();
    assert_eq!(f.begin(), "Background: recover");
    f.session.set_context(ContextFacts::default());
    f.end_with(TurnReport { recovered: Some(false), ..TurnReport::default() });
    assert_eq!(f.replace_context(true), 1);
    let expected = ["1: call 1 tool 1", "1: give up 1", "1: answer 2 MemoryLimit", "1: answer 1 MemoryLimit"];
    assert_eq!(f.lines(), expected);
}

#[test]
fn turn_to_free_memory_that_cannot_begin_is_not_repeated() {
    let mut f = recovering(|_| {});
    f.session.fail_turn("no stack");
    f.collect();
    assert_eq!(f.lines(), ["1: answer 1 MemoryLimit"]);
    assert_eq!(f.begin(), "nothing");
}

#[test]
fn reset_while_memory_is_freed_replaces_the_context_once() {
    for has_room in [true, false] {
        let mut f = recovering(|_| {});
        f.invoke(1, 2, "session.reset", json!({}));
        assert_eq!(f.stops(), [Stop::Cancelled]);
        let stopped = Some(Stop::Cancelled);
        f.end_with(TurnReport { recovered: Some(has_room), stopped, ..TurnReport::default() });
        assert_eq!(f.replace_context(true), 1);
        f.run_bindings_turn();
        let answered: Vec<String> = f.lines().into_iter().filter(|line| line.contains("answer 1 ")).collect();
        assert_eq!(answered, ["1: answer 1 MemoryLimit"], "{has_room}");
    }
}

#[test]
fn session_that_ends_while_memory_is_freed_answers_the_eval() {
    let mut f = recovering(|_| {});
    f.send(ToSession::End(Closing::GoingAway));
    f.end_stopped(Stop::Closed);
    f.session.finish(f.now);
    f.collect();
    assert_eq!(f.lines(), ["1: answer 1 MemoryLimit", "ended GoingAway Some(1)"]);
}

#[test]
fn stored_outcome_holds_no_function_of_a_lost_context() {
    let mut f = Fixture::attached();
    f.keyed_eval(1, 1, "a", "k");
    f.begin();
    let number = f.export(RefHolder::Client, 7);
    f.end_settled(Ok(json!({"$fn": "f1"})), vec![number]);
    f.eval(1, 2, "b");
    f.begin();
    f.end_stopped(Stop::Memory);
    f.begin();
    f.end_with(TurnReport { recovered: Some(false), ..TurnReport::default() });
    f.replace_context(true);
    f.run_bindings_turn();
    assert_eq!(f.session.state.references.root_of(&Callable::Script(7)), None);
    f.lines();
    f.keyed_eval(1, 3, "a", "k");
    f.invoke_function(1, 4, "f1");
    assert_eq!(f.lines(), [r#"1: answer 3 {"value":{"$fn":"f1"}}"#, "1: answer 4 UnknownRef"]);
}

//! Calls to the client: deadlines, places, order, answers.

use super::*;

/// An eval of request 1 that made these calls.
fn calling(names: &[&str], change: impl FnOnce(&mut Limits)) -> Fixture {
    let mut f = Fixture::attached_with(change);
    f.eval(1, 1, "a");
    f.begin_eval_with_calls(names);
    f
}

#[test]
fn call_answered_settles_in_the_next_turn_of_its_eval() {
    let mut f = calling(&["tool", "tool"], |_| {});
    assert_eq!(f.lines(), ["1: call 1 tool 1", "1: call 2 tool 1"]);
    f.answer(1, 2, json!("b"));
    f.answer(1, 1, json!("a"));
    assert_eq!(f.begin(), r#"Eval(1): settle 2="b" 1="a""#, "answers that came together");
}

#[test]
fn call_answered_twice_settles_once() {
    let mut f = calling(&["tool"], |_| {});
    f.answer(1, 1, json!("a"));
    f.answer(1, 1, json!("b"));
    assert_eq!(f.begin(), r#"Eval(1): settle 1="a""#);
    f.end();
    assert_eq!(f.begin(), "nothing");
}

#[test]
fn call_made_before_a_suspension_is_sent_there() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.call_client("tool", json!(1));
    assert!(f.lines().is_empty());
    f.apply(Input::Suspended);
    assert_eq!(f.lines(), ["1: call 1 tool 1"]);
    f.answer(1, 1, json!(5));
    f.end();
    assert_eq!(f.begin(), "Eval(1): settle 1=5");
}

#[test]
fn call_that_floats_is_sent_after_the_answer() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.call_client("tool", json!(1));
    f.end_ok(json!(9));
    assert_eq!(f.lines(), [r#"1: answer 1 {"value":9}"#, "1: call 1 tool 1"]);
    f.answer(1, 1, json!(2));
    assert_eq!(f.begin(), "Background: settle 1=2");
}

#[test]
fn call_of_a_stopped_turn_is_not_sent() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.call_client("tool", json!(1));
    f.end_stopped(Stop::Cpu);
    assert_eq!(f.lines(), ["1: answer 1 Timeout"]);
    assert!(f.session.state.script_calls.is_empty() && f.freed() == [1, 2]);
}

#[test]
fn call_expires_at_its_own_time() {
    let of_eval = |limits: &mut Limits| limits.wall_ms_max = 3_600_000;
    for (name, ms) in [("tool", 30_000), ("slow", 5_000), ("approve", 600_000)] {
        let mut f = calling(&[name], of_eval);
        f.lines();
        f.wait(ms - 1);
        assert!(f.lines().is_empty(), "{name}");
        f.wait(1);
        assert_eq!(f.lines(), ["1: give up 1"], "{name}");
        assert_eq!(f.begin(), "Eval(1): settle 1=Timeout");
    }
}

#[test]
fn call_expires_also_while_a_turn_runs() {
    let mut f = calling(&["slow", "tool"], |_| {});
    f.answer(1, 2, json!(1));
    f.begin();
    f.lines();
    f.wait(5_000);
    assert_eq!(f.lines(), ["1: give up 1"]);
}

#[test]
fn call_of_an_eval_with_a_limit_may_take_that_long() {
    let mut f = Fixture::attached_with(|limits| limits.wall_ms_max = 3_600_000);
    let params = EvalParams { code: "a".into(), timeout_ms: Some(120_000), ..EvalParams::default() };
    f.eval_with(1, 1, params);
    f.begin_eval_with_calls(&["tool"]);
    f.lines();
    f.wait(119_999);
    assert!(f.lines().is_empty());
    f.wait(1);
    assert_eq!(f.lines(), ["1: give up 1", "1: answer 1 Timeout"]);
}

#[test]
fn call_checked_before_and_after() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    for (name, input) in [("count", json!("no")), ("count", json!(1)), ("nothing", json!(1))] {
        f.call_client(name, input);
    }
    f.end();
    assert_eq!(f.lines(), ["1: call 1 count 1"]);
    assert_eq!(f.session.take_checked(), Some(Some(ChargedTo::Eval(1))));
    f.answer(1, 1, json!("no"));
    assert_eq!(f.begin(), "Eval(1): settle 1=InvalidInput 3=UnknownBinding 2=InvalidOutput");
}

#[test]
fn calls_past_the_places_wait_in_order() {
    let mut f = calling(&["tool"; 4], |limits| limits.client_calls_open_max = 2);
    assert_eq!(f.lines(), ["1: call 1 tool 1", "1: call 2 tool 1"]);
    f.answer(1, 2, json!(1));
    assert_eq!(f.lines(), ["1: call 3 tool 1"]);
    f.answer(1, 1, json!(1));
    assert_eq!(f.lines(), ["1: call 4 tool 1"]);
}

#[test]
fn call_held_too_long_expires_unsent() {
    let mut f = calling(&["slow", "tool"], |limits| limits.client_calls_open_max = 1);
    f.lines();
    f.wait(5_000);
    assert_eq!(f.lines(), ["1: give up 1", "1: call 2 tool 1"]);
    let mut f = calling(&["tool", "slow"], |limits| limits.client_calls_open_max = 1);
    f.lines();
    f.wait(5_000);
    assert!(f.lines().is_empty(), "it was never sent");
    assert_eq!(f.begin(), "Eval(1): settle 2=Timeout");
}

#[test]
fn call_after_a_reset_is_not_held_behind_those_before() {
    let mut f = Fixture::attached_with(|limits| limits.client_calls_open_max = 1);
    f.eval(1, 1, "a");
    f.begin();
    f.call_client("tool", json!(1));
    f.call_client("tool", json!(2));
    f.end_ok(json!(0));
    f.invoke(1, 2, "session.reset", json!({}));
    f.replace_context(true);
    f.run_bindings_turn();
    f.lines();
    f.eval(1, 3, "b");
    f.begin_eval_with_calls(&["tool"]);
    assert_eq!(f.lines(), ["1: call 3 tool 1"]);
}

#[test]
fn call_without_a_client_fails_or_waits_for_it() {
    for (grace_ms, settled) in [(0, "Eval(1): settle 1=PeerGone"), (1_000, "nothing")] {
        let mut f = Fixture::attached_with(|limits| limits.client_grace_ms = grace_ms);
        f.eval(1, 1, "a");
        f.begin();
        f.send(ToSession::Detach { connection: 1 });
        f.call_client("tool", json!(1));
        f.end();
        assert_eq!(f.begin(), settled);
    }
}

#[test]
fn call_that_waits_for_the_client_is_sent_on_resume() {
    let cases: [(&[&str], &str); 2] =
        [(CLIENT, "2: call 2 tool 1"), (&["other"], "Eval(1): settle 1=UnknownBinding")];
    for (bindings, expected) in cases {
        let mut f = Fixture::attached_with(|limits| limits.client_grace_ms = 1_000);
        f.eval(1, 1, "a");
        f.begin();
        f.send(ToSession::Detach { connection: 1 });
        f.call_client("tool", json!(1));
        f.end();
        f.wait(999);
        f.attach(2, bindings);
        let seen = format!("{:?} {}", f.lines(), f.begin());
        assert!(seen.contains(expected), "{seen}");
    }
}

#[test]
fn call_that_waits_too_long_for_the_client_fails() {
    let mut f = Fixture::attached_with(|limits| limits.client_grace_ms = 1_000);
    f.eval(1, 1, "a");
    f.begin();
    f.send(ToSession::Detach { connection: 1 });
    f.call_client("tool", json!(1));
    f.end();
    f.wait(1_000);
    assert_eq!(f.begin(), "Eval(1): settle 1=PeerGone");
}

#[test]
fn console_lines_stream_in_order_before_the_answer() {
    let mut f = Fixture::with_limits(|limits| limits.client_calls_open_max = 1);
    f.attach(1, &["console.write", "tool"]);
    f.lines();
    f.eval(1, 7, "a");
    f.begin();
    f.print("x");
    f.print("y");
    f.end_ok(json!(0));
    f.eval(1, 8, "b");
    assert_eq!(f.begin(), "nothing", "no eval begins while lines wait");
    let call = |number: u64, text: &str| {
        let input = json!({"level": "log", "text": text, "atMs": 0, "evalId": 7});
        format!("1: call {number} console.write {input}")
    };
    assert_eq!(f.lines(), [call(1, "x")]);
    f.answer(1, 1, Value::Null);
    let answer = f.lines();
    assert_eq!(answer.len(), 2);
    assert_eq!(answer[0], call(2, "y"));
    assert!(answer[1].starts_with(r#"1: answer 7 {"value":0,"console":["#));
    assert_eq!(f.begin(), "Eval(2): eval b");
}

#[test]
fn stored_outcome_stays_behind_the_lines_of_its_eval() {
    let mut f = Fixture::with_limits(|limits| limits.client_calls_open_max = 1);
    f.attach(1, &["console.write"]);
    f.keyed_eval(1, 7, "a", "k");
    f.begin();
    f.print("x");
    f.print("y");
    f.end_ok(json!(0));
    f.keyed_eval(1, 8, "a", "k");
    assert!(f.lines().iter().all(|line| !line.contains("answer")));
    f.answer(1, 1, Value::Null);
    let answers: Vec<String> = f.lines().iter().map(|line| line.chars().take(11).collect()).collect();
    assert_eq!(answers, ["1: call 2 c", "1: answer 7", "1: answer 8"]);
}

#[test]
fn answer_behind_lines_goes_with_its_connection() {
    let mut f = Fixture::with_limits(|limits| limits.client_calls_open_max = 1);
    f.attach(1, &["console.write"]);
    f.lines();
    let charge = f.eval(1, 7, "a");
    f.begin();
    f.print("x");
    f.print("y");
    f.end_ok(json!(0));
    f.lines();
    f.send(ToSession::Detach { connection: 1 });
    let sent: Vec<String> = f.messages().iter().map(line).collect();
    assert_eq!(sent, [format!("discharge {charge}"), "called PeerGone".into()]);
}

#[test]
fn timers_and_calls_of_lines_have_places_of_their_own() {
    let mut f = Fixture::with_limits(|limits| limits.client_calls_open_max = 1);
    f.attach(1, &["console.write", "tool"]);
    f.lines();
    f.eval(1, 7, "a");
    f.begin();
    f.call_client("tool", json!(1));
    f.print("x");
    f.apply(Input::Suspended);
    let sent = f.lines();
    assert!(sent.len() == 2 && sent[0].contains("tool") && sent[1].contains("console.write"), "{sent:?}");
}

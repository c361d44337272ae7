//! The control bindings.

use super::*;

#[test]
fn cancel_ends_what_it_names() {
    let cases = [
        (json!({}), "[1]"),
        (json!({"evalId": 1}), "[1]"),
        (json!({"evalId": 2}), "[2]"),
        (json!({"evalId": 3}), "[]"),
        (json!({"evalId": "1"}), "[]"),
    ];
    for (input, ended) in cases {
        let mut f = Fixture::attached();
        f.eval(1, 1, "a");
        f.eval(1, 2, "b");
        f.begin_eval_with_calls(&[]);
        f.invoke(1, 9, "session.cancel", input.clone());
        let lines = f.lines();
        assert_eq!(lines.last(), Some(&format!(r#"1: answer 9 {{"value":{ended}}}"#)), "{input}");
    }
}

#[test]
fn cancel_in_a_turn_stops_it_and_then_the_eval() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.invoke(1, 2, "session.cancel", json!({}));
    assert_eq!((f.lines(), f.stops()), (vec![r#"1: answer 2 {"value":[1]}"#.into()], vec![Stop::Cancelled]));
    f.invoke(1, 3, "session.cancel", json!({}));
    assert_eq!(f.lines(), [r#"1: answer 3 {"value":[]}"#], "it is being cancelled already");
    f.end_ok(json!(1));
    assert_eq!(f.lines(), ["1: answer 1 Cancelled"]);
}

#[test]
fn cancel_of_another_connection_ends_nothing_by_id() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.attach(2, CLIENT);
    f.lines();
    f.invoke(2, 2, "session.cancel", json!({"evalId": 1}));
    assert_eq!(f.lines(), [r#"2: answer 2 {"value":[]}"#]);
}

#[test]
fn control_input_is_checked() {
    let cases = [
        ("session.cancel", json!({"evalId": true}), "InvalidInput"),
        ("session.cancel", json!({"other": 1}), "InvalidInput"),
        ("session.info", json!(1), "InvalidInput"),
        ("session.reset", json!({"a": 1}), "InvalidInput"),
        ("bindings.search", json!({}), "InvalidInput"),
        ("bindings.search", json!({"query": "x".repeat(64 << 10)}), "InvalidInput"),
        ("session.info", json!({"$date": "no"}), "InvalidParams"),
    ];
    for (name, input, kind) in cases {
        let mut f = Fixture::attached();
        f.invoke(1, 1, name, input);
        assert_eq!(f.lines(), [format!("1: answer 1 {kind}")], "{name}");
    }
}

#[test]
fn info_counts_what_there_is() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.eval(1, 2, "b");
    f.begin();
    f.call_client("tool", json!(1));
    f.session.state.timers.set(1, f.now + Duration::from_secs(1), ChargedTo::Eval(1));
    f.export(RefHolder::Client, 1);
    f.session.charge_cpu(Duration::from_millis(7));
    f.end();
    let expected = SessionInfo {
        running: true,
        evals_queued: 1,
        evals_done: 0,
        memory_bytes: 0,
        cpu_ms: 7,
        calls_in_flight: 1,
        timers: 1,
        functions_held: 1,
        functions_imported: 0,
    };
    f.messages();
    f.send(ToSession::Inspect { request: 4 });
    let [FromSession::Info { request: 4, info }] = &f.messages()[..] else { panic!("no info") };
    assert_eq!(*info, expected);
}

#[test]
fn reset_cancels_and_answers_before_the_context_is_replaced() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.eval(1, 2, "b");
    f.begin_eval_with_calls(&["tool"]);
    f.export(RefHolder::Client, 1);
    f.invoke(1, 3, "session.reset", json!({}));
    let expected = [
        "1: call 1 tool 1",
        "1: answer 2 Cancelled",
        "1: give up 1",
        "1: answer 1 Cancelled",
        r#"1: answer 3 {"value":null}"#,
    ];
    assert_eq!(f.lines(), expected);
    assert_eq!(f.replace_context(true), 1);
    assert!(f.session.state.references.len() == 0 && f.session.state.script_calls.is_empty());
    f.run_bindings_turn();
    f.eval(1, 4, "c");
    f.run_eval(json!(1));
    assert_eq!(f.lines(), [r#"1: answer 4 {"value":1}"#]);
}

#[test]
fn reset_in_a_turn_waits_for_its_end() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    f.invoke(1, 2, "session.reset", json!({}));
    assert_eq!(f.stops(), [Stop::Cancelled]);
    f.eval(1, 3, "for the new context");
    f.end_stopped(Stop::Cancelled);
    assert_eq!(f.lines(), [r#"1: answer 2 {"value":null}"#, "1: answer 1 Cancelled"]);
    assert_eq!(f.replace_context(true), 1);
    f.run_bindings_turn();
    assert_eq!(f.begin(), "Eval(2): eval for the new context");
}

#[test]
fn close_ends_the_session() {
    let mut f = Fixture::attached();
    f.invoke(1, 1, "session.close", json!({}));
    assert_eq!((f.lines(), f.session.is_ending()), (vec![r#"1: answer 1 {"value":null}"#.into()], true));
}

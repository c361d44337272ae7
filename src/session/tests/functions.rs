//! Functions of the script that others call.

use super::*;

/// A script that passed function 7, with root 1, to a holder.
fn exporting(holder: RefHolder) -> Fixture {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    let number = f.export(holder, 7);
    f.end_settled(Ok(json!({"$fn": "f1"})), vec![number]);
    f.lines();
    f
}

#[test]
fn function_called_by_the_client_answers_it() {
    let mut f = exporting(RefHolder::Client);
    f.invoke_function(1, 2, "f1");
    assert_eq!(f.begin(), "Invocation(1): call root 1");
    f.end_ok(json!(5));
    assert_eq!(f.lines(), [r#"1: answer 2 {"value":5}"#]);
}

#[test]
fn function_of_a_handler_is_unknown_to_the_client() {
    let mut f = exporting(RefHolder::Handler);
    for (id, reference) in [(2, "f1"), (3, "f01"), (4, "h1"), (5, "1:c1"), (6, "")] {
        f.invoke_function(1, id, reference);
        assert_eq!(f.lines(), [format!("1: answer {id} UnknownRef")], "{reference}");
    }
}

#[test]
fn function_released_as_often_as_sent_is_freed() {
    let mut f = exporting(RefHolder::Client);
    f.export(RefHolder::Client, 7);
    let release = |count| FromClient::Release { reference: "f1".into(), count };
    f.command(1, release(1));
    assert!(f.freed().is_empty());
    f.command(1, release(1));
    assert_eq!(f.freed(), [1]);
}

#[test]
fn invocation_past_its_time_is_stopped() {
    let mut f = exporting(RefHolder::Client);
    f.invoke_function(1, 2, "f1");
    f.begin();
    f.call_client("slow", json!(1));
    f.end();
    f.lines();
    f.wait(5_000);
    assert_eq!(f.lines(), ["1: give up 2"], "its clock is paused until then");
    f.begin();
    f.end();
    f.wait(60_000);
    assert_eq!(f.lines(), ["1: answer 2 Timeout"]);
}

#[test]
fn invocation_stopped_before_it_began_never_runs() {
    let mut f = exporting(RefHolder::Client);
    f.invoke_function(1, 2, "f1");
    f.wait(60_000);
    assert_eq!((f.lines(), f.begin().as_str()), (vec!["1: answer 2 Timeout".into()], "nothing"));
}

#[test]
fn invocation_not_delivered_holds_no_functions() {
    type Prepare = fn(&mut Fixture);
    let cases: [(&str, Prepare); 2] = [
        ("the connection is gone", |f| f.send(ToSession::Detach { connection: 1 })),
        ("it was stopped", |f| f.session.stop_invocation(1, Stop::Wall)),
    ];
    for (name, prepare) in cases {
        let mut f = exporting(RefHolder::Client);
        f.invoke_function(1, 2, "f1");
        f.begin();
        prepare(&mut f);
        let before = f.session.state.references.held_by(RefHolder::Client);
        let number = f.export(RefHolder::Client, 8);
        f.end_settled(Ok(json!({"$fn": "f2"})), vec![number]);
        assert_eq!(f.session.state.references.held_by(RefHolder::Client), before, "{name}");
    }
}

#[test]
fn function_released_while_it_is_called_is_kept_until_then() {
    let mut f = exporting(RefHolder::Client);
    f.invoke_function(1, 2, "f1");
    f.command(1, FromClient::Release { reference: "f1".into(), count: 1 });
    assert!(f.freed().is_empty());
    assert_eq!(f.begin(), "Invocation(1): call root 1");
    f.end_ok(json!(1));
    assert_eq!(f.freed(), [1]);
}

#[test]
fn answer_settled_after_a_resume_names_its_own_connection() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin_eval_with_calls(&["tool"]);
    f.answer(1, 1, json!({"$fn": "c1"}));
    f.attach(2, CLIENT);
    let begun = f.session.next_turn(f.now).unwrap();
    let Work::Settle(settlements) = begun.turn.work else { panic!("no settlement") };
    assert_eq!(settlements[0].source, ValueSource::Client(1));
}

#[test]
fn function_runs_beside_an_eval_that_awaits() {
    let mut f = exporting(RefHolder::Client);
    f.eval(1, 2, "b");
    f.begin_eval_with_calls(&["tool"]);
    f.lines();
    f.invoke_function(1, 3, "f1");
    f.begin();
    f.end_ok(json!(6));
    assert_eq!(f.lines(), [r#"1: answer 3 {"value":6}"#]);
}

#[test]
fn stopped_invocation_leaves_the_eval_alone() {
    let mut f = exporting(RefHolder::Client);
    f.eval(1, 2, "b");
    f.begin_eval_with_calls(&["tool"]);
    f.invoke_function(1, 3, "f1");
    f.begin();
    f.lines();
    f.end_stopped(Stop::Cpu);
    assert_eq!(f.lines(), ["1: answer 3 Timeout"]);
    assert!(f.session.state.evals.running.is_some());
}

#[test]
fn imports_dropped_by_the_script_are_released_to_their_client() {
    let mut f = Fixture::attached();
    let (own, old) =
        (FnRef::Client { connection: 1, id: "c".into() }, FnRef::Client { connection: 0, id: "c".into() });
    let of_handler = FnRef::Handler(4);
    for function in [&own, &old, &of_handler] {
        // It was received twice.
        f.session.state.references.import(function).unwrap();
        f.session.state.references.import(function).unwrap();
        f.session.drop_import(function.clone());
    }
    f.session.send_dropped_imports();
    f.collect();
    assert_eq!(f.lines(), ["1: release c 2", "release functions [4]"]);
    assert!(f.session.state.references.len() == 0);
}

#[test]
fn function_of_an_earlier_connection_cannot_be_called() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    for connection in [1, 9] {
        let (call, charged_to) = (f.script_call(), ChargedTo::Eval(1));
        let function = FnRef::Client { connection, id: "c1".into() };
        let target = PendingTarget::Function(function, Payload::Args(vec![json!(1)]));
        f.session.state.pending.push(PendingCall { call, charged_to, target, depth: 1 });
    }
    f.end();
    assert_eq!(f.lines(), ["1: call 1 c1 [1]"]);
    assert_eq!(f.begin(), "Eval(1): settle 2=UnknownRef");
}

/// Exports a function of the script to the client, and calls a binding of the client with it.
fn call_with_function(f: &mut Fixture, binding: &str) {
    let references = &mut f.session.state.references;
    let number = references.export(RefHolder::Client, &Callable::Script(1)).unwrap();
    f.call_client(binding, json!({"callback": {"$fn": FnRef::Script(number).to_string()}}));
}

#[test]
fn function_in_a_call_that_is_refused_is_not_held() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    call_with_function(&mut f, "nothing");
    call_with_function(&mut f, "count");
    f.end();
    assert_eq!(f.session.state.references.held_by(RefHolder::Client), 0);
    assert_eq!(f.begin(), "Eval(1): settle 1=UnknownBinding 2=InvalidInput");
}

#[test]
fn function_in_a_call_of_a_stopped_turn_is_not_held() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    call_with_function(&mut f, "tool");
    f.end_stopped(Stop::Cpu);
    assert_eq!(f.session.state.references.held_by(RefHolder::Client), 0);
}

#[test]
fn function_in_a_call_that_is_sent_is_held() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    call_with_function(&mut f, "tool");
    f.end();
    assert_eq!(f.session.state.references.held_by(RefHolder::Client), 1);
    f.wait(30_000);
    assert_eq!(f.session.state.references.held_by(RefHolder::Client), 1, "the client may still have it");
}

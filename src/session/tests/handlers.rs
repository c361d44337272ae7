//! Calls of server bindings, and what handlers ask of the session.

use super::*;

fn function(number: u64) -> InvokeTarget {
    InvokeTarget::Function(FnRef::Script(number))
}

fn binding(name: &str) -> InvokeTarget {
    InvokeTarget::Binding(name.to_owned())
}

/// An eval of request 1 that waits for a handler; the handler's number.
fn waiting() -> (Fixture, u64) {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    let handler = f.call_server(0);
    f.end();
    (f, handler)
}

#[test]
fn handler_done_settles_the_call_of_the_script() {
    let (mut f, number) = waiting();
    f.send(ToSession::HandlerDone { number, outcome: Ok(json!(3)) });
    assert_eq!(f.begin(), "Eval(1): settle 1=3");
    f.end();
    f.send(ToSession::HandlerDone { number, outcome: Ok(json!(4)) });
    assert_eq!(f.begin(), "nothing");
}

#[test]
fn handler_done_within_the_turn_settles_nothing() {
    let mut f = Fixture::attached();
    f.eval(1, 1, "a");
    f.begin();
    let call = f.script_call();
    let number = f.session.make_handler_call(call, HandlerTarget::Binding(0), json!(1), Vec::new()).number;
    f.session.state.script_calls.take(call).unwrap();
    f.end();
    f.send(ToSession::HandlerDone { number, outcome: Ok(json!(4)) });
    assert_eq!(f.begin(), "nothing");
}

#[test]
fn handler_is_cancelled_with_its_eval() {
    let (mut f, number) = waiting();
    f.invoke(1, 2, "session.cancel", json!({}));
    let expected = [
        format!("cancel handler {number}"),
        "1: answer 1 Cancelled".into(),
        r#"1: answer 2 {"value":[1]}"#.into(),
    ];
    assert_eq!(f.lines(), expected);
    assert_eq!(f.freed(), [1, 2]);
}

#[test]
fn function_returned_for_a_cancelled_call_is_released() {
    let (mut f, number) = waiting();
    f.invoke(1, 2, "session.cancel", json!({}));
    f.lines();
    f.send(ToSession::HandlerDone { number, outcome: Ok(json!([{"$fn": FnRef::Handler(7).to_string()}])) });
    assert_eq!(f.lines(), ["release functions [7]"]);
}

#[test]
fn invoke_of_a_server_binding_is_answered_by_its_handler() {
    let mut f = Fixture::attached();
    f.invoke(1, 1, "kv.get", json!({"key": 1}));
    assert_eq!(f.lines(), [r#"handler 1 binding 1 {"key":1}"#]);
    f.send(ToSession::HandlerDone { number: 1, outcome: Ok(json!(3)) });
    assert_eq!(f.lines(), [r#"1: answer 1 {"value":3}"#]);
    f.invoke(1, 2, "nothing", json!(1));
    assert_eq!(f.lines(), ["1: answer 2 UnknownBinding"]);
}

#[test]
fn handler_that_returns_functions_exports_them() {
    for is_connected in [true, false] {
        let mut f = Fixture::attached();
        f.invoke(1, 1, "echo", json!(1));
        if !is_connected {
            f.send(ToSession::Detach { connection: 1 });
        }
        f.lines();
        f.send(ToSession::HandlerDone { number: 1, outcome: Ok(json!({"$fn": "h5"})) });
        let held = f.session.state.references.held_by(RefHolder::Client);
        match is_connected {
            true => assert_eq!((f.lines(), held), (vec![r#"1: answer 1 {"value":{"$fn":"f1"}}"#.into()], 1)),
            false => assert_eq!((f.lines(), held), (vec!["release functions [5]".into()], 0)),
        }
    }
}

#[test]
fn handler_function_is_called_and_released() {
    let mut f = Fixture::attached();
    f.invoke(1, 1, "echo", json!(1));
    f.send(ToSession::HandlerDone { number: 1, outcome: Ok(json!({"$fn": "h5"})) });
    f.lines();
    f.invoke_function(1, 2, "f1");
    assert_eq!(f.lines(), ["handler 2 function 5 []"]);
    let release = FromClient::Release { reference: "f1".into(), count: 1 };
    f.command(1, release);
    assert_eq!(f.lines(), ["release functions [5]"]);
    f.invoke_function(1, 3, "f1");
    assert_eq!(f.lines(), ["1: answer 3 UnknownRef"]);
}

#[test]
fn handler_calls_server_client_and_script() {
    let (mut f, _) = waiting();
    f.handler_invoke(1, binding("kv.get"), Some(1));
    f.handler_invoke(2, binding("tool"), Some(1));
    f.handler_invoke(3, binding("missing"), Some(1));
    f.handler_invoke(4, function(9), None);
    let exported = f.export(RefHolder::Handler, 7);
    f.handler_invoke(5, function(exported), Some(1));
    let expected =
        ["handler 2 binding 1 2", "1: call 3 tool 2", "request 3 UnknownBinding", "request 4 UnknownRef"];
    assert_eq!(f.lines(), expected);
    assert_eq!(f.begin(), "Invocation(4): call root 3");
    f.end_ok(json!("from the script"));
    f.answer(1, 3, json!("from the client"));
    f.send(ToSession::HandlerDone { number: 2, outcome: Ok(json!("from the server")) });
    let expected = [
        r#"request 5 "from the script""#,
        r#"request 2 "from the client""#,
        r#"request 1 "from the server""#,
    ];
    assert_eq!(f.lines(), expected);
}

#[test]
fn handler_call_to_the_client_pauses_the_clock_of_its_eval() {
    let (mut f, number) = waiting();
    f.handler_invoke(1, binding("approve"), Some(1));
    f.lines();
    f.wait(120_000);
    assert!(f.lines().is_empty());
    f.answer(1, 2, json!(true));
    f.send(ToSession::HandlerDone { number, outcome: Ok(json!(3)) });
    assert_eq!((f.lines(), f.begin().as_str()), (vec!["request 1 true".into()], "Eval(1): settle 1=3"));
}

#[test]
fn handler_request_cancelled_gives_its_call_up() {
    let (mut f, _) = waiting();
    f.handler_invoke(1, binding("tool"), Some(1));
    f.lines();
    f.send(ToSession::HandlerCancel { request: 1 });
    f.send(ToSession::HandlerCancel { request: 1 });
    assert_eq!(f.lines(), ["1: give up 2"]);
}

#[test]
fn handler_behind_a_handler_is_answered_when_the_eval_stops() {
    let (mut f, first) = waiting();
    f.handler_invoke(1, binding("kv.get"), Some(1));
    f.handler_invoke(2, binding("tool"), Some(1));
    f.lines();
    f.invoke(1, 2, "session.cancel", json!({}));
    let lines = f.lines();
    let expected = [format!("cancel handler {first}"), "1: give up 3".into(), "request 2 PeerGone".into()];
    assert_eq!(lines[..3], expected);
}

#[test]
fn invokes_nested_too_deeply_are_refused() {
    let mut f = Fixture::attached_with(|limits| limits.invoke_depth_max = 0);
    f.invoke(1, 1, "echo", json!(1));
    f.handler_invoke(2, binding("echo"), None);
    assert_eq!(f.lines(), ["1: answer 1 TooDeep", "request 2 TooDeep"]);
}

#[test]
fn invoke_of_a_value_nested_too_deeply_is_refused() {
    let mut f = Fixture::attached_with(|limits| limits.value_depth_max = 2);
    f.invoke(1, 1, "echo", json!([[[1]]]));
    assert_eq!(f.lines(), ["1: answer 1 InvalidParams"]);
}

#[test]
fn server_binding_that_the_client_hides_is_not_called() {
    let mut f = Fixture::attached();
    f.send(ToSession::Catalog(catalog(2, &["echo", "tool"])));
    f.eval(1, 1, "a");
    f.run_bindings_turn();
    f.run_eval(json!(1));
    f.lines();
    f.invoke(1, 2, "tool", json!(1));
    f.handler_invoke(3, binding("tool"), None);
    f.invoke(1, 4, "bindings.search", json!({"query": "tool"}));
    let expected = [
        "1: answer 2 UnknownBinding",
        "1: call 1 tool 2",
        r#"handler 2 describe Some("tool") {"query":"tool"}"#,
    ];
    assert_eq!(f.lines(), expected);
}

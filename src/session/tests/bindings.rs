//! Which bindings scripts see, and how a client learns that the server's changed.

use super::*;

/// A client that wants to know of changes.
const CURIOUS: &[&str] = &["tool", "bindings.changed"];

/// With connection 1 of a client that wants to know of changes.
fn curious() -> Fixture {
    curious_with(|_| {})
}

fn curious_with(change: impl FnOnce(&mut Limits)) -> Fixture {
    let mut f = Fixture::with_limits(change);
    f.attach(1, CURIOUS);
    f.lines();
    f
}

fn publish(f: &mut Fixture, version: u64, bindings: &[&str]) {
    f.send(ToSession::Catalog(catalog(version, bindings)));
}

/// The line of a call of `bindings.changed`.
fn announced(call: u64, version: u64, [added, changed, removed]: [&[&str]; 3]) -> String {
    let input = json!({"version": version, "added": added, "changed": changed, "removed": removed});
    format!("1: call {call} bindings.changed {input}")
}

#[test]
fn change_is_announced_once_to_a_client_that_declares_it() {
    let mut f = curious();
    publish(&mut f, 2, &["echo#", "fresh"]);
    assert_eq!(f.lines(), [announced(1, 2, [&["fresh"], &["echo"], &["kv.get"]])]);
    f.answer(1, 1, json!(null));
    publish(&mut f, 2, &["echo#", "fresh"]);
    publish(&mut f, 1, SERVER);
    assert!(f.lines().is_empty(), "a version that is known or older");
    let mut f = Fixture::attached();
    publish(&mut f, 2, &["fresh"]);
    assert!(f.lines().is_empty(), "a client that does not declare it");
}

#[test]
fn versions_are_collected_while_an_announcement_is_open() {
    let mut f = curious();
    publish(&mut f, 2, &["echo", "kv.get", "a"]);
    assert_eq!(f.lines(), [announced(1, 2, [&["a"], &[], &[]])]);
    publish(&mut f, 3, &["echo", "kv.get", "a", "b"]);
    publish(&mut f, 4, &["echo", "kv.get", "b", "c"]);
    assert!(f.lines().is_empty(), "one is open at a time");
    let charge = f.answer(1, 1, json!(null));
    let sent: Vec<String> = f.messages().iter().map(line).collect();
    let expected = announced(2, 4, [&["b", "c"], &[], &["a"]]);
    assert_eq!(sent, ["called done".to_owned(), format!("discharge {charge}"), expected]);
    f.answer(1, 2, json!(null));
    assert!(f.lines().is_empty(), "nothing new");
}

#[test]
fn announcement_that_fails_or_expires_is_followed_by_the_next() {
    let mut f = curious();
    publish(&mut f, 2, &["a"]);
    publish(&mut f, 3, &["b"]);
    f.lines();
    let refusal = ErrorObject::new(Kind::BindingError, "no");
    f.command(1, FromClient::Answer { call: 1, outcome: Err(refusal) });
    assert_eq!(f.lines(), [announced(2, 3, [&["b"], &[], &["a"]])]);
    publish(&mut f, 4, &["c"]);
    assert!(f.lines().is_empty());
    f.now = f.session.wake_at(f.now).unwrap();
    f.wait(0);
    assert_eq!(f.lines(), ["1: give up 2".to_owned(), announced(3, 4, [&["c"], &[], &["b"]])]);
}

#[test]
fn versions_that_differ_in_nothing_visible_are_not_announced() {
    let mut f = curious();
    publish(&mut f, 2, SERVER);
    publish(&mut f, 3, &["echo", "kv.get", "tool"]);
    publish(&mut f, 4, &["echo", "kv.get", "tool.more"]);
    assert!(f.lines().is_empty());
    publish(&mut f, 5, &["echo", "kv.get", "fresh"]);
    assert_eq!(f.lines(), [announced(1, 5, [&["fresh"], &[], &[]])], "hidden ones are not removed either");
}

#[test]
fn announcement_waits_for_a_place_at_the_client() {
    let mut f = curious_with(|limits| limits.client_calls_open_max = 1);
    f.eval(1, 1, "a");
    f.begin_eval_with_calls(&["tool"]);
    publish(&mut f, 2, &["fresh"]);
    assert_eq!(f.lines(), ["1: call 1 tool 1"]);
    f.answer(1, 1, json!(1));
    assert_eq!(f.lines(), [announced(2, 2, [&["fresh"], &[], SERVER])]);
}

#[test]
fn announcement_outlives_a_reset_and_ends_with_its_connection() {
    let mut f = curious();
    publish(&mut f, 2, &["a"]);
    f.lines();
    f.invoke(1, 1, "session.reset", json!({}));
    assert_eq!(f.lines(), [r#"1: answer 1 {"value":null}"#], "it is not given up");
    assert_eq!(f.replace_context(true), 1);
    publish(&mut f, 3, &["b"]);
    assert!(f.lines().is_empty(), "it is still open");
    f.send(ToSession::Detach { connection: 1 });
    assert!(f.lines().is_empty());
    assert_eq!(f.session.wake_at(f.now), None);
    f.attach(2, CURIOUS);
    publish(&mut f, 4, &["c"]);
    let lines = f.lines();
    assert_eq!(lines[0], "attached 2 0");
    assert!(lines[1].starts_with("2: call 2 bindings.changed"), "{lines:?}");
}

#[test]
fn client_that_was_listed_an_older_version_hears_of_the_latest() {
    let mut f = Fixture::new();
    publish(&mut f, 2, &["echo", "kv.get", "a"]);
    f.attach(1, CURIOUS);
    assert_eq!(f.lines(), ["attached 1 0"], "nothing comes before the handshake is answered");
    publish(&mut f, 2, &["echo", "kv.get", "a"]);
    assert_eq!(f.lines(), [announced(1, 2, [&["a"], &[], &[]])]);
}

#[test]
fn catalog_listed_to_a_new_client_is_seen_by_scripts() {
    let mut f = Fixture::attached();
    let (bindings, listed) = (catalog(0, CLIENT), catalog(2, &["fresh"]));
    f.send(ToSession::Attach { connection: 2, bindings, listed, schema_bytes: 0 });
    f.run_bindings_turn();
    assert_eq!(f.session.server_binding("fresh"), Some(0));
    assert_eq!(f.session.server_binding("echo"), None);
}

#[test]
fn new_catalog_is_taken_at_the_next_eval() {
    let mut f = Fixture::attached();
    publish(&mut f, 2, &["other", "fresh"]);
    assert_eq!(f.begin(), "nothing", "no eval waits for it");
    assert_eq!(f.session.server_binding("fresh"), None);
    f.invoke(1, 1, "fresh", json!(1));
    f.invoke(1, 2, "echo", json!(1));
    let expected = ["handler 1 binding 1 1", "1: answer 2 UnknownBinding"];
    assert_eq!(f.lines(), expected, "an invoke reaches the latest ones");
    f.eval(1, 3, "a");
    assert_eq!(f.begin(), "Background: bindings");
    f.end();
    assert_eq!(f.begin(), "Eval(1): eval a");
    assert_eq!((f.session.server_binding("fresh"), f.session.server_binding("echo")), (Some(1), None));
}

#[test]
fn new_catalogs_before_an_eval_are_taken_together() {
    let mut f = Fixture::attached();
    publish(&mut f, 3, &["c"]);
    publish(&mut f, 2, &["b"]);
    f.eval(1, 1, "a");
    f.run_bindings_turn();
    assert_eq!(f.begin(), "Eval(1): eval a");
    assert_eq!(f.session.server_binding("c"), Some(0), "an older version does not replace a newer one");
}

#[test]
fn names_of_the_client_hide_those_of_the_server() {
    let mut f = Fixture::new();
    f.attach(1, &["a.b", "c", "p.q", "approve"]);
    publish(&mut f, 2, &["a.b.d", "a.e", "c", "p", "echo"]);
    f.eval(1, 1, "a");
    f.run_bindings_turn();
    assert_eq!(f.session.visible_names(), ["a.e", "echo", "a.b", "c", "p.q"]);
    assert_eq!((f.session.server_binding("a.e"), f.session.server_binding("c")), (Some(1), None));
    for (name, is_binding) in [("a", true), ("c", true), ("a.b", true), ("echo", true), ("approve", false)] {
        assert_eq!(f.session.is_binding(name), is_binding, "{name}");
    }
    f.lines();
    for (id, name) in (2..).zip(["a.b.d", "a.b", "c", "p"]) {
        f.invoke(1, id, name, json!(1));
        assert_eq!(f.lines(), [format!("1: answer {id} UnknownBinding")], "{name}");
    }
}

#[test]
fn names_of_a_client_stay_until_the_next_one_comes() {
    let mut f = Fixture::attached_with(|limits| limits.client_grace_ms = 1_000);
    f.send(ToSession::Detach { connection: 1 });
    publish(&mut f, 2, &["echo", "tool"]);
    assert_eq!(f.session.visible_names(), ["echo", "kv.get", "tool", "slow", "count"]);
    assert_eq!(f.session.server_binding("tool"), None);
    let kept = f.session.state.last_client_names.get("count").unwrap();
    assert!(kept.input.is_none() && kept.declaration.input.is_none(), "names alone are kept");
    f.attach(2, &["mine"]);
    assert_eq!(f.session.visible_names(), ["echo", "tool", "mine"]);
    assert_eq!(f.session.server_binding("tool"), Some(1));
}

#[test]
fn bindings_are_described_as_the_next_eval_sees_them() {
    let mut f = Fixture::attached();
    publish(&mut f, 2, &["fresh"]);
    f.invoke(1, 1, "bindings.types", json!({}));
    let [FromSession::CallHandler(call)] = &f.messages()[..] else { panic!("no handler is called") };
    let HandlerTarget::Describe { server, client, query: None } = &call.target else { panic!("{call:?}") };
    assert!(server.contains("fresh") && !server.contains("echo") && client.contains("tool"));
    f.send(ToSession::HandlerDone { number: call.number, outcome: Ok(json!("text")) });
    assert_eq!(f.lines(), [r#"1: answer 1 {"value":"text"}"#]);
}

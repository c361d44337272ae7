//! What is registered, refused, replaced and kept.

use serde_json::{Value, json};

use super::*;
use crate::binding::handler;
use crate::protocol::declaration::Declaration;

fn binding(name: &str) -> Binding {
    Binding::new(Declaration::named(name), handler(|_, _| async { Ok(Value::Null) }))
}

fn described(name: &str, description: &str) -> Binding {
    let mut binding = binding(name);
    binding.declaration.description = Some(description.to_owned());
    binding
}

fn package(origin: &str, names: &[&str]) -> (PackageBindings, BindingPublisher) {
    let publisher = BindingPublisher::default();
    let bindings = with_paths(names.iter().map(|name| binding(name)).collect());
    let source = SchemaSource::Operator;
    (PackageBindings { origin: origin.to_owned(), source, bindings, publisher: publisher.clone() }, publisher)
}

fn with(names: &[&str]) -> (Arc<Handlers>, BindingPublisher) {
    let handlers = Arc::new(Handlers::default());
    let (package, publisher) = package("a.json", names);
    assert_eq!(handlers.add(package).problems, []);
    (handlers, publisher)
}

fn offered(handlers: &Handlers) -> Vec<(u32, String)> {
    let catalog = handlers.catalog();
    let number = |name: &str| catalog.number_of(name).unwrap();
    catalog.iter().map(|entry| (number(entry.name()), entry.name().to_owned())).collect()
}

fn paths(problems: &[DeclarationProblem]) -> Vec<(&str, &str)> {
    problems.iter().map(|problem| (problem.origin.as_str(), problem.path.as_str())).collect()
}

#[test]
fn control_names_are_reserved() {
    let handlers = Arc::new(Handlers::default());
    let (package, _) = package("a.json", &["session.more", "sessions.list", "session", "bindings.types"]);
    let Registration { names, problems } = handlers.add(package);
    assert_eq!(names, ["sessions.list"]);
    let expected = ["/bindings/0/name", "/bindings/2/name", "/bindings/3/name"];
    assert_eq!(paths(&problems), expected.map(|path| ("a.json", path)));
}

#[test]
fn merge_refuses_names_that_are_taken() {
    let (handlers, _) = with(&["a"]);
    let (other, publisher) = with(&["b"]);
    let (clashing, _) = package("c.json", &["a.b", "c"]);
    other.add(clashing);
    assert_eq!(paths(&handlers.merge(&other)), [("c.json", "")]);
    assert_eq!(offered(&handlers), [(0, "a".into()), (1, "b".into()), (2, "c".into())]);
    // What the package publishes from now on goes to the server that took it over.
    assert_eq!(publisher.replace_now(vec![binding("b"), binding("d")]), []);
    assert!(handlers.get("d").is_some() && other.get("d").is_none());
}

#[test]
fn replaced_set_keeps_numbers_and_never_reuses_one() {
    let (handlers, publisher) = with(&["a", "b", "c"]);
    let version = handlers.catalog().version();
    publisher.replace_now(vec![binding("a"), described("c", "new"), binding("d")]);
    assert_eq!(offered(&handlers), [(0, "a".into()), (2, "c".into()), (3, "d".into())]);
    assert_eq!(handlers.catalog().version(), version + 1);
    assert!(handlers.at(1).is_none());
    publisher.replace_now(vec![binding("b")]);
    assert_eq!(offered(&handlers), [(4, "b".into())]);
}

#[test]
fn same_set_is_not_a_new_version() {
    let (handlers, publisher) = with(&["a", "b"]);
    let (before, slots) = (handlers.catalog(), handlers.at(0).unwrap());
    publisher.replace_now(vec![binding("b"), binding("a")]);
    assert!(Arc::ptr_eq(&before, &handlers.catalog()));
    assert!(Arc::ptr_eq(&slots.slots, &handlers.at(0).unwrap().slots));
    assert!(!Arc::ptr_eq(&slots.handler, &handlers.at(0).unwrap().handler));
}

#[test]
fn changed_limits_are_a_new_version() {
    let (handlers, publisher) = with(&["a"]);
    let before = handlers.catalog();
    let limits = BindingLimits { timeout_ms: Some(5), concurrency: Some(1) };
    publisher.replace_now(vec![binding("a").limits(limits)]);
    assert_eq!(handlers.catalog().version(), before.version() + 1);
    let entry = handlers.at(0).unwrap();
    assert_eq!(entry.timeout, Some(Duration::from_millis(5)));
    let slot = entry.slots.try_take();
    assert!(slot.is_some() && entry.slots.try_take().is_none());
}

#[test]
fn collision_is_refused_and_the_rest_applies() {
    let (handlers, first) = with(&["a.get"]);
    let (package, second) = package("b.json", &["b.get"]);
    handlers.add(package);
    let refused =
        second.replace_now(vec![binding("b.get"), binding("a.get"), binding("a"), binding("b.set")]);
    assert_eq!(paths(&refused), [("b.json", "/bindings/1/name"), ("b.json", "/bindings/2/name")]);
    let names: Vec<_> = offered(&handlers).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["a.get", "b.get", "b.set"]);
    // A name is free as soon as its package gives it up.
    first.replace_now(Vec::new());
    assert_eq!(second.replace_now(vec![binding("a.get")]), []);
}

#[test]
fn changed_binding_with_a_bad_schema_is_removed() {
    let (handlers, publisher) = with(&["a", "b"]);
    let mut bad = binding("a");
    bad.declaration.input = Some(json!({"type": "strng"}));
    let refused = publisher.replace_now(vec![bad, binding("b")]);
    assert_eq!(paths(&refused), [("a.json", "/bindings/0/input/type")]);
    assert_eq!(offered(&handlers), [(1, "b".into())]);
}

#[test]
fn set_published_while_opening_replaces_the_first() {
    let (package, publisher) = package("a.json", &["first"]);
    assert_eq!(publisher.replace_now(vec![binding("later")]), []);
    let handlers = Arc::new(Handlers::default());
    assert_eq!(handlers.add(package).names, ["later"]);
}

#[test]
fn publisher_does_not_keep_the_handlers_alive() {
    let (handlers, publisher) = with(&["a"]);
    let weak = Arc::downgrade(&handlers);
    drop(handlers);
    assert!(weak.upgrade().is_none());
    assert_eq!(publisher.replace_now(vec![binding("a")]), []);
}

#[test]
fn bindings_past_the_limit_of_a_package_are_refused() {
    let (handlers, publisher) = with(&[]);
    let many = |count: usize| (0..count).map(|at| binding(&format!("t.n{at}"))).collect::<Vec<_>>();
    assert_eq!(publisher.replace_now(many(PACKAGE_BINDINGS_MAX)), []);
    assert_eq!(publisher.replace_now(many(PACKAGE_BINDINGS_MAX + 1)).len(), 1);
    assert_eq!(handlers.catalog().len(), PACKAGE_BINDINGS_MAX);
}

//! Which expression is found for a complaint and a place.

use super::*;

fn texts(code: &str, complaint: Complaint<'_>, place: (u32, u32)) -> Vec<String> {
    blame(code, complaint, Some(place)).into_iter().map(|suspect| suspect.text).collect()
}

#[test]
fn callee_around_the_place_is_named_innermost_first() {
    assert_eq!(texts("a;\nkv.fetch('x')", Complaint::NotAFunction, (2, 3)), ["kv.fetch"]);
    assert_eq!(texts("f(g(1))", Complaint::NotAFunction, (1, 4)), ["g", "f"]);
    assert_eq!(texts("new Thing", Complaint::NotAFunction, (1, 1)), ["Thing"]);
}

#[test]
fn object_of_the_property_is_named() {
    let suspects = blame("const z = o.a.b.c", Complaint::Property("c"), Some((1, 11)));
    assert_eq!(suspects.first().map(|suspect| suspect.path.join(".")), Some("o.a.b".to_owned()));
    assert_eq!(suspects.first().map(|suspect| suspect.place), Some((1, 11)));
    let called = blame("kv.get({ key }).value.x", Complaint::Property("x"), Some((1, 1)));
    let call = called.first().and_then(|suspect| suspect.call.clone());
    assert_eq!(call, Some(("kv.get({ key })".to_owned(), vec!["kv".to_owned(), "get".to_owned()])));
}

#[test]
fn iterated_and_destructured_values_are_named() {
    assert_eq!(texts("for (const x of users) {}", Complaint::NotIterable, (1, 1)), ["users"]);
    assert_eq!(texts("const { a } = row", Complaint::NotAnObject, (1, 1)), ["row"]);
    assert_eq!(texts("Object.keys(row.tags)", Complaint::NotAnObject, (1, 8)), ["row.tags"]);
}

#[test]
fn missing_name_comes_with_its_members() {
    let suspects = blame("kvv.get('a')", Complaint::Missing("kvv"), Some((1, 1)));
    let paths: Vec<String> = suspects.into_iter().map(|suspect| suspect.path.join(".")).collect();
    assert_eq!(paths, ["kvv", "kvv.get"]);
}

#[test]
fn awaits_outside_of_functions_are_found() {
    assert_eq!(awaits("await a;\nasync () => await b;\n  await c"), [(1, 1), (3, 3)]);
}

#[test]
fn code_that_does_not_parse_or_is_too_long_blames_nothing() {
    assert_eq!(texts("let = = 1; f()", Complaint::NotAFunction, (1, 12)), Vec::<String>::new());
    assert_eq!(texts("f()", Complaint::NotAFunction, (9, 1)), Vec::<String>::new());
    let long = format!("f(){}", " ".repeat(BLAMED_BYTES_MAX));
    assert_eq!(texts(&long, Complaint::NotAFunction, (1, 1)), Vec::<String>::new());
}

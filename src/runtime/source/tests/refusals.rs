//! Constructs that are refused by name, with their place in the code as sent.

use super::super::{CODE_BYTES_MAX, Options, SourceError, prepare, rescue};
use super::harness::is_binding;

fn refusal(code: &str) -> Option<SourceError> {
    let options = Options { fresh: false, is_binding: &is_binding };
    prepare(code, &options).err().or_else(|| rescue(code, &options).err())
}

#[test]
fn unsupported_constructs_are_named() {
    for (code, word, place) in [
        ("1;\n import a from 'b'", "static import", (2, 2)),
        ("import 'b'", "static import", (1, 1)),
        ("import a = require('b')", "static import", (1, 1)),
        ("const a = 1;\nexport { a }", "export", (2, 1)),
        ("export default 1", "export", (1, 1)),
        ("export const a = await 1", "export", (1, 1)),
        ("export type A = 1", "export", (1, 1)),
        ("export = 1", "export", (1, 1)),
        ("export * from 'a'", "export", (1, 1)),
        ("let a: number; namespace N { export const b = 1 }", "namespaces", (1, 16)),
        ("module M { }", "namespaces", (1, 1)),
        ("@dec class A {}", "decorators", (1, 1)),
        ("class A {\n  @dec b() {} }", "decorators", (2, 3)),
        ("const a = <div>it's</div>", "JSX", (1, 11)),
        ("f(<></>)", "JSX", (1, 3)),
    ] {
        let error = refusal(code).unwrap_or_else(|| panic!("{code} was not refused"));
        assert!(error.message.starts_with(word), "{code}: {error}");
        assert_eq!((error.line, error.column), place, "{code}");
    }
}

#[test]
fn keywords_in_other_places_are_not_refused() {
    for code in
        ["const a = 'import x from y'", "const b = await import('x')", "let c = '@dec'", "let namespace = 1"]
    {
        assert_eq!(refusal(code), None, "{code}");
    }
}

#[test]
fn duplicate_is_refused_with_its_place() {
    let error = refusal("let é = 1;\n/* é */ let é").unwrap();
    assert_eq!((error.line, error.column), (2, 14));
}

#[test]
fn broken_code_is_left_to_the_engine() {
    let options = Options { fresh: false, is_binding: &is_binding };
    for code in ["let a = ;", "let a = (", "let a = 'x", "class {", "let `", "const a = /* "] {
        assert_eq!(prepare(code, &options).unwrap().code, code);
        assert!(rescue(code, &options).unwrap().is_none(), "{code}");
    }
}

#[test]
fn enum_member_after_a_string_needs_a_value() {
    assert_eq!(refusal("enum E { A = 'x',\n B }").map(|error| (error.line, error.column)), Some((2, 2)));
}

#[test]
fn parameter_properties_need_a_plain_super_call() {
    let error = refusal("class A extends B { constructor(private a: number) { if (a) super() } }").unwrap();
    assert!(error.message.contains("super"), "{error}");
}

#[test]
fn enum_with_a_long_name_is_refused_as_too_large() {
    let code = format!("enum {} {{ {} }}", "E".repeat(1 << 16), "A,".repeat(1 << 12));
    assert_eq!(refusal(&code).map(|error| error.message), Some("the enum is too large".to_owned()));
}

#[test]
fn code_past_the_limit_is_refused() {
    let longest = format!("let a{}", " ".repeat(CODE_BYTES_MAX - 5));
    let options = Options { fresh: false, is_binding: &is_binding };
    assert!(prepare(&longest, &options).unwrap().code.starts_with("var a = void 0;"));
    let error = prepare(&(longest + " "), &options).unwrap_err();
    assert_eq!(error.message, "code is too long");
}

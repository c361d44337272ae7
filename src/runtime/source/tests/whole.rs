//! Code that is not quite a program, and what it means.

use super::harness::Session;

#[test]
fn object_literal_as_whole_code_is_an_object() {
    for (code, value) in [
        ("{ a: 1 }", r#"{"a":1}"#),
        ("{\"a\": 1, \"b\": [1, 2]}", r#"{"a":1,"b":[1,2]}"#),
        ("\n{ a: await Promise.resolve(2) }\n", r#"{"a":2}"#),
        ("{}", "{}"),
        ("{ let a = 3; a }", "3"),
        ("{ 4 }", "4"),
        ("{ a: 1 };", "1"),
    ] {
        assert_eq!(Session::new().eval(code), value, "{code}");
        assert_eq!(Session::fresh().eval(code), value, "fresh: {code}");
    }
}

#[test]
fn return_at_the_top_level_gives_the_value() {
    for (code, value) in [
        ("return 5", "5"),
        ("return", "undefined"),
        ("const a = 1;\nif (a) return a + 1;\nreturn 0", "2"),
        ("for (const x of [1, 2, 3]) { if (x === 2) return x; }\n9", "2"),
        ("try { return 7 } finally { 8 }", "7"),
        ("const f = () => { return 1 };\nreturn { a: f() }", r#"{"a":1}"#),
        ("return await Promise.resolve(6)", "6"),
        ("if (false) return 1;\n3", "3"),
        ("'use strict'; return 4", "4"),
        ("function g() { return 2 }\nreturn g()", "2"),
        ("let n: number = 3;\nreturn n as number", "3"),
    ] {
        assert_eq!(Session::new().eval(code), value, "{code}");
        assert_eq!(Session::fresh().eval(code), value, "fresh: {code}");
    }
}

#[test]
fn declarations_beside_a_return_persist() {
    let session = Session::new();
    assert_eq!(session.eval("const kept = 1; function h() { return kept }\nreturn kept"), "1");
    assert_eq!(session.eval("kept + h()"), "2");
}

#[test]
fn import_of_types_is_erased() {
    assert_eq!(Session::new().eval("import type { A } from 'b';\nlet c: A = 1; c"), "1");
    assert_eq!(Session::new().eval("import { type A, type B } from 'b'\n2"), "2");
    assert!(
        Session::new().eval("import type { A } from 'b'; import c from 'd'; 1").contains("static import")
    );
}

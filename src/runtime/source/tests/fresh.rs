//! A fresh eval leaves nothing behind and has the value of the plain script.

use super::harness::Session;

/// Codes whose value must be the same fresh, declared or not.
const VALUES: &[&str] = &[
    "1 + 1",
    "",
    "'directive'",
    "'use strict'; this === undefined",
    "this === globalThis",
    "let a = 1; a",
    "5; let a = 1",
    "5; class A {}",
    "1; {}",
    "1; { 2 }",
    "1; ;",
    "1; if (false) 2",
    "1; if (true) {}",
    "if (true) 3; else 4",
    "if (false) 3\nelse 4",
    "1; do { 2; break } while (0)",
    "1; for (const i of [1, 2]) i",
    "1; for (;;) break",
    "1; while (false);",
    "let i = 0; while (i < 3) i++",
    "1; try { 2 } finally { 3 }",
    "try { throw 1 } catch (e) { e + 1 }",
    "1; switch (2) { case 2: 7; break; default: 8 }",
    "a: for (const i of [1, 2]) { for (;;) { i; continue a } }",
    "a: b: { 6; break a }",
    "1; with ({ x: 9 }) x",
    "(function () {}).name",
    "({ a: 1 })",
    "1, 2",
    "`a${1}`",
    "await Promise.resolve(3)",
    "7 // c",
    "7 /* c */",
    "const f = function () {}; f.name",
    "do 4; while (0) 5",
    "function f() { return 1 }\nf()",
    "var v = 1; v\n++v",
    "let x = 1\n;[x].length",
    "1\n/* c */\n",
    "if (1) if (0) 2; else 3",
    "var $value = 3; $value",
    "'a'; 'b'",
    "1; var q = 2",
    "1; throw_: { }",
    "'use strict'\n;[1].length",
    "if (1) { 1 } else if (2) { 2 } else 3",
    "for (var k in { a: 1 }) k",
    "#!x\n1",
    "1; try { 2 } catch {} finally {}",
    "let t = { then: 1 }; t.then",
];

#[test]
fn fresh_eval_has_the_value_of_the_script() {
    for code in VALUES {
        assert_eq!(Session::fresh().eval(code), Session::new().run(code), "{code}");
    }
}

#[test]
fn fresh_declarations_do_not_persist() {
    let session = Session::fresh();
    session.eval("let a = 1; const b = 1; class C {} var d = 1; function e() {}");
    assert_eq!(
        session.eval("[typeof a, typeof b, typeof C, typeof d, typeof e].join()"),
        r#""undefined,undefined,undefined,undefined,undefined""#
    );
}

#[test]
fn last_promise_is_returned_without_await() {
    assert_eq!(Session::fresh().eval("Promise.resolve(1) instanceof Promise"), "true");
    assert_eq!(Session::fresh().eval("({ then: 5 })"), r#"{"then":5}"#);
    assert_eq!(Session::fresh().eval("let f = { then(done) { done(2) } }; f"), "{}");
}

#[test]
fn native_rules_hold() {
    let session = Session::fresh();
    assert!(session.eval("let a; let a").starts_with("SyntaxError"));
    assert!(session.eval("const a = 1; a = 2").starts_with("TypeError"));
    assert!(session.eval("arguments").starts_with("ReferenceError"));
    assert!(session.eval("1 +").starts_with("SyntaxError"));
    assert!(session.eval("}); (() => {").starts_with("SyntaxError"));
}

#[test]
fn types_are_erased_too() {
    assert_eq!(
        Session::fresh().eval("let a: number = 1\nenum E { A = 4 }\ninterface I {}\n<number>a + E.A"),
        "5"
    );
}

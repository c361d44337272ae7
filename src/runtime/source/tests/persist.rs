//! Declarations of the top level outlive their eval, and may be declared again.

use super::harness::Session;

#[test]
fn declarations_are_seen_by_later_evals() {
    let session = Session::new();
    assert_eq!(
        session.eval("const a = 1; let b = 2, c; var d = 4; function e() { return 5 } class F {}"),
        "undefined"
    );
    assert_eq!(session.eval("[a, b, typeof c, d, e(), typeof F]"), r#"[1,2,"undefined",4,5,"function"]"#);
    assert_eq!(
        session.eval("const { x, y: [z], ...rest } = { x: 1, y: [2], w: 3 }; [x, z, rest]"),
        r#"[1,2,{"w":3}]"#
    );
    assert_eq!(session.eval("[x, z, rest.w]"), "[1,2,3]");
}

#[test]
fn declarations_may_be_repeated_with_another_kind() {
    let session = Session::new();
    for code in ["const a = 1; a", "let a = 1; a", "class a {}; 1", "var a = 1; a", "function a() {}; 1"] {
        assert_eq!(session.eval(code), "1", "{code}");
    }
}

#[test]
fn closures_see_the_same_binding() {
    let session = Session::new();
    session.eval("let a = 1; const get = () => a");
    assert_eq!(session.eval("let a = 2; get()"), "2");
}

#[test]
fn let_without_a_value_resets() {
    let session = Session::new();
    session.eval("let a = 1, b = 2");
    assert_eq!(session.eval("let a, b = 3; typeof a + b"), r#""undefined3""#);
    session.eval("let a = 1");
    assert_eq!(session.eval("let a\n(function () {})()\ntypeof a"), r#""undefined""#);
    session.eval("let a = 1");
    assert_eq!(session.eval("let a // c\n[1].length"), "1");
    assert_eq!(session.eval("typeof a"), r#""undefined""#);
}

#[test]
fn declaration_that_throws_leaves_the_name_free() {
    let session = Session::new();
    assert_eq!(session.eval("const a = missing()"), "ReferenceError: missing is not defined");
    assert_eq!(session.eval("const a = 1; a"), "1");
}

#[test]
fn last_expression_is_the_value() {
    let session = Session::new();
    for (code, value) in [
        ("const o = await Promise.resolve({ total: 142.5 }); o.total", "142.5"),
        ("5; class A {}", "5"),
        ("class A {}", "undefined"),
        ("5; let b = 1", "5"),
        ("5; const b = 1;", "5"),
        ("5; let b", "5"),
        ("const b = 1", "undefined"),
        ("'use strict'; let c = 1; c", "1"),
        ("let d = 1; if (d) 3", "3"),
    ] {
        assert_eq!(session.eval(code), value, "{code}");
    }
}

#[test]
fn line_after_a_class_is_not_an_argument() {
    let session = Session::new();
    assert_eq!(session.eval("class A {}\n(1)"), "1");
    assert_eq!(session.eval("class A {}\n[2].length"), "1");
    assert_eq!(session.eval("class A {}\n`x`"), r#""x""#);
}

#[test]
fn blocks_and_loops_keep_their_own_declarations() {
    let session = Session::new();
    assert_eq!(
        session.eval("let n = 0; for (const i of [1, 2]) { let n = i } for (let j = 0; j < 2; j++); n"),
        "0"
    );
    assert_eq!(session.eval("typeof i + typeof j"), r#""undefinedundefined""#);
}

#[test]
fn duplicates_in_one_eval_are_refused() {
    let session = Session::new();
    for code in [
        "let a; let a",
        "let a; const a = 1",
        "let a; var a",
        "var a; let a",
        "let a; { var a }",
        "for (var a of []); let a",
        "try {} catch { var a } const a = 1",
        "let a; function a() {}",
        "function a() {} class a {}",
        "class a {} class a {}",
        "const { a } = {}, b = 1; let [a] = []",
        "x: if (1) while (0) { switch (1) { case 1: var a } } let a",
    ] {
        assert_eq!(session.eval(code), "SyntaxError: Identifier 'a' has already been declared", "{code}");
    }
    assert_eq!(
        session.eval("let undefined"),
        "SyntaxError: Identifier 'undefined' has already been declared"
    );
}

#[test]
fn permitted_redeclarations_are_not_refused() {
    let session = Session::new();
    for code in [
        "let z; var a; var a; 1",
        "let z; function a() {} function a() {} 1",
        "let z; var a; function a() {} 1",
        "let a; { let a } 1",
        "let a; (() => { var a }); 1",
        "let a; try {} catch (a) {} 1",
        "let a; for (let a of []); 1",
        "let a; class B { static { var a } } 1",
        "let a; { class a {} } { function b() {} } 1",
    ] {
        assert_eq!(session.eval(code), "1", "{code}");
    }
}

#[test]
fn native_refusals_stand() {
    let session = Session::new();
    for code in ["const a", "let let = 1", "let a = ;", "const a = 1; new.target"] {
        assert!(session.eval(code).starts_with("SyntaxError"), "{code}");
    }
}

#[test]
fn assigning_a_const_throws_in_every_form() {
    let session = Session::new();
    for write in [
        "a = 2",
        "a += 1",
        "a++",
        "--a",
        "a &&= 2",
        "[a] = [2]",
        "({ a } = { a: 2 })",
        "({ a = 3 } = {})",
        "({ b: a } = { b: 2 })",
        "({ b: [a = 1] } = { b: [] })",
        "({ ...a } = {})",
        "[...a] = []",
        "for (a of [1]);",
        "for (a in { x: 1 });",
        "(() => { a = 2 })()",
        "(a) = 2",
        "{ a = 2 }",
        "(function f(b = a = 2) {})()",
        "[{ a }] = [{}]",
        "for ({ a } of [{}]);",
    ] {
        let code = format!(
            "const a = 1; let caught; try {{ {write} }} catch (e) {{ caught = `${{e}}` }} [caught, a]"
        );
        assert_eq!(session.eval(&code), r#"["TypeError: 'a' is read-only",1]"#, "{write}");
    }
    assert_eq!(session.eval("const c = 1; c ||= 2; c ??= 3; c"), "1");
    assert_eq!(session.eval("const d = 1; let seen = 0; try { d = seen = 7 } catch {} seen"), "7");
}

#[test]
fn only_the_top_level_const_is_guarded() {
    let session = Session::new();
    assert_eq!(session.eval("const a = 1; (a => { a = 2; return a })(0)"), "2");
    assert_eq!(session.eval("const a = 1; { let a = 1; a = 3 } for (let a = 0; a < 1; a++); a"), "1");
    assert_eq!(session.eval("const o = { a: 1 }; o.a = 2; o.a"), "2");
    assert_eq!(session.eval("class K {} K = 4; K"), "4");
    assert_eq!(session.eval("o = 5; o"), "5", "a later eval may assign it");
}

#[test]
fn function_may_take_a_bindings_name() {
    let session = Session::new();
    assert_eq!(session.eval("function getOrder() { return 1 }\n(2)"), "2");
    assert_eq!(session.eval("shadow()"), "1");
    assert_eq!(session.eval("async function* getOrder() {}; shadow.name"), r#""getOrder""#);
}

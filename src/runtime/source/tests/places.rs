//! Errors are reported where they are in the code as sent.

use super::harness::Session;

/// The engine reports `new Error` at the name, as a column in bytes.
fn assert_place(session: &Session, code: &str) {
    let at = code.rfind("Error()").unwrap();
    let line_start = code[..at].rfind('\n').map_or(0, |line_break| line_break + 1);
    let line = code[..at].matches('\n').count() + 1;
    let place = (u32::try_from(line).unwrap(), u32::try_from(at - line_start + 1).unwrap());
    assert_eq!(session.thrown_at(code), place, "{code}");
}

#[test]
fn columns_survive_every_edit() {
    for code in [
        "new Error().stack",
        "let a = 1; new Error().stack",
        "let a, b; new Error().stack",
        "'é😀'; let a; new Error().stack",
        "const a = 1;\nclass B {} new Error().stack",
        "class B { static m() { return new Error().stack } } B.m()",
        "const a = 1; try { a = 2 } catch {} new Error().stack",
        "const a = 1; try { ({ a } = {}) } catch {} new Error().stack",
        "let a: 'é😀' = 1 as any; new Error().stack",
        "let a = <any>1; new Error().stack",
        "enum E {\n A, /* é */ B = 2\n} new Error().stack",
        "function getOrder() {} new Error().stack",
    ] {
        assert_place(&Session::new(), code);
    }
}

#[test]
fn columns_survive_the_fresh_wrapper() {
    for code in [
        "new Error().stack",
        "1; if (true) { 2 } new Error().stack",
        "1;\n2; new Error().stack",
        "for (const i of [1]) new Error().stack",
        "let a: number = 1; new Error().stack",
    ] {
        assert_place(&Session::fresh(), code);
    }
}

//! Types leave no trace but blanks.

use super::super::{Options, prepare, rescue};
use super::harness::{Session, is_binding};

fn erased(code: &str) -> String {
    let options = Options { fresh: false, is_binding: &is_binding };
    let prepared = prepare(code, &options).unwrap();
    match rescue(code, &options).unwrap() {
        Some(rescued) => rescued.code.into_owned(),
        None => prepared.code.into_owned(),
    }
}

/// Codes and their values.
const VALUES: &[(&str, &str)] = &[
    ("let a: number = 1; a", "1"),
    ("(1 as number) + (2 satisfies number)", "3"),
    ("type A = 1\n(2)", "2"),
    ("let y = [4]; let x = y as any\n[1].length", "1"),
    ("let q = 5 as\n number\n(6)", "6"),
    ("interface A { b: string; c(): void }\n7", "7"),
    ("function f<T>(this: any, a?: T, ...b: T[]): a is T { return a } f(3)", "3"),
    ("function f(this: void) { return 1 } f()", "1"),
    ("const g = <T,>(x: T): T => x; g<number>(4)", "4"),
    ("const g = async <\n T\n>(x: T): Promise<\n T\n> => x; await g(4)", "4"),
    ("const g = (a: number, b = 2): { \n c: number \n} => ({ c: a + b }); g(1).c", "3"),
    ("const h = () => <any>{ a: 1 }; h().a", "1"),
    ("(() => { return <\nany>5 })()", "5"),
    ("let z!: number; z = 2; z!", "2"),
    ("const o = { a: { b: 1 } }; o!.a!.b!", "1"),
    ("function f(a: number): void; function f(a: any): any { return a } f(8)", "8"),
    ("declare const u: number; declare function v(): void; declare class W {} 9", "9"),
    ("declare global { var x: number } declare module 'x' { } declare namespace N { const a: 1 } 1", "1"),
    ("try { throw 1 } catch (e: unknown) { e as number }", "1"),
    ("for (const i of [1, 2] as number[]) i", "2"),
    ("const m = new Map<string, Array<number>>([['a', [1]]]); m.get('a')![0]", "1"),
    ("let t = (a: any, ...r: any[]): r is string[] => r.length === 1; t(1, 2)", "true"),
    (
        "abstract class A<T> { abstract a: T; abstract b(): void; c(): number { return 1 } }\nclass B extends A<string> implements I, J { a!: string; b() {} }\nnew B().c()",
        "1",
    ),
    (
        "class P { private readonly a: number = 1; public static b?: string; protected get c(): number { return this.a } [key: string]: any; declare d: number; public *e() {} override g() {} f?(): void }\nnew P().c",
        "1",
    ),
    (
        "class J { private a = 1; static readonly b = 2; override c() { return this.a } }\nnew J().c() + J.b",
        "3",
    ),
    (
        "class F { a: number\n['b']: number = 2\npublic c = 3\npublic ['d'] = 4; private *g() {} }\nlet i = new F; i.b + i.c + i.d",
        "9",
    ),
    ("class F { a = 1 as number\n['b'] = 2 }\nnew F().b", "2"),
    (
        "class Q { constructor(private a: number, public b = 2, readonly c?: string, d?: number) { 'x'\n this.a++ } }\nJSON.stringify(new Q(1))",
        r#""{\"a\":2,\"b\":2}""#,
    ),
    ("class R extends Array { constructor(public n: number) { super()\n this.n++ } }\nnew R(1).n", "2"),
    ("let s = { m<T>(a: T): T { return a }, get p(): number { return 1 } }; s.m(s.p)", "1"),
    ("const { a, b }: { a: number; b: number } = { a: 1, b: 2 }; a + b", "3"),
    ("let é: 'ü' | 'ö' = 'ü'; é", "\"ü\""),
    ("let fn = function <T>(a: T) { return a } as any; fn(2)", "2"),
    ("const tag = (s: any): any => s[0]; tag<string>`x`", "\"x\""),
    ("let w: number = await Promise.resolve<number>(1); w", "1"),
    ("const c1: number = 1; try { (c1 as any) = 2 } catch {} c1", "1"),
    ("if (true as boolean) { type X = 1; 3 }", "3"),
    ("switch (1 as number) { case 1: interface Y {} 4 }", "4"),
    ("label: for (;;) { type Z = 1; break label }\n5", "5"),
    ("let opt = (a?: number) => a; opt(1)", "1"),
    ("const k = (x: number) => { switch (x) { case 1: return 'a' as const } }; k(1)", "\"a\""),
];

#[test]
fn values_are_those_without_types() {
    for (code, value) in VALUES {
        assert_eq!(Session::new().eval(code), *value, "{code}\n{}", erased(code));
    }
}

#[test]
fn enums_run() {
    for (code, value) in [
        ("enum E { A, B, C = 10, D }\n[E.A, E.B, E.C, E.D, E[1], E[11]]", r#"[0,1,10,11,"B","D"]"#),
        ("enum E { A = 'x', B = `y`, C = A + 'z' }\nE", r#"{"A":"x","B":"y","C":"xz"}"#),
        (
            "enum E { A = 1 << 2, B, C = A | B, D = 'abc'.length, E = -1, F }\n[E.B, E.C, E.D, E.F, E[5]]",
            r#"[5,5,3,0,"C"]"#,
        ),
        ("const enum E { 'a-b' = 3, ['c'], }\n[E['a-b'], E.c]", "[3,4]"),
        ("enum E { A } enum E { B = 5 }\n[E.A, E.B]", "[0,5]"),
        ("enum E {}\nE", "{}"),
        ("{ enum E { A = 2 } E.A }", "2"),
        ("5; enum E { A }", "5"),
        ("enum E { A = (1 as number), B = <any>A }\nE.B", "1"),
        ("enum E { // first, second\n A, // a, b\n B /* , */\n}\n(E.B)", "1"),
        ("declare enum E { A }\n1", "1"),
    ] {
        assert_eq!(Session::new().eval(code), value, "{code}\n{}", erased(code));
    }
}

#[test]
fn enums_persist_and_may_be_declared_again() {
    let session = Session::new();
    session.eval("enum E { A, B }");
    assert_eq!(session.eval("E.B"), "1");
    assert_eq!(session.eval("enum E { C } E"), r#"{"0":"C","C":0}"#);
    assert_eq!(session.eval("enum E { A } let E"), "SyntaxError: Identifier 'E' has already been declared");
}

#[test]
fn erased_code_keeps_its_width_and_lines() {
    for code in [
        "var a: Map<\n  string,\n number> = b as any; function f<T>(x: T): T { return x! }",
        "class A<T> extends B<T> implements C { private x: number = 1; m?(): void; static readonly y!: string }",
        "interface A {\n b: 'é'\n}\nvar c: 'é😀' = d",
    ] {
        let output = erased(code);
        assert_eq!(output.lines().count(), code.lines().count());
        let var = output.replacen("var A = ", "", 1).replacen("};", "}", 1);
        let widths = |text: &str| text.lines().map(|line| line.len()).collect::<Vec<_>>();
        assert_eq!(widths(&var), widths(code), "{code}\n{output}");
    }
}

#[test]
fn javascript_that_looks_like_types_stays_javascript() {
    assert_eq!(Session::new().eval("let f = 1, a = 2, b = 3; f < a > (b)"), "false");
    assert_eq!(Session::new().eval("let type = 1, as = 2; type\n+ as"), "3");
}

//! No code overflows the stack: whatever is let through parses on the stack a script has.

use proptest::prelude::*;

use super::super::nesting::{Nesting, measure};
use super::super::{Options, prepare, rescue};
use super::harness::is_binding;

/// The stack that is there when a code is prepared.
const STACK_BYTES: usize = 3 << 19;
/// More levels than any bound lets through.
const LEVELS_MAX: usize = 1 << 16;

/// Before, one level's opening, the middle, one level's end, after.
const SHAPES: &[[&str; 5]] = &[
    ["let x = ", "!", "a", "", ""],
    ["let x = ", "- ", "a", "", ""],
    ["let x = ", "typeof\n", "a", "", ""],
    ["let x = ", "await\n", "a", "", ""],
    ["let x = ", "new ", "a", "", ""],
    ["let x = 1", "+1", "", "", ""],
    ["let x = 1", "**1", "", "", ""],
    ["let x = 1", "\n?? 1", "", "", ""],
    ["let x; ", "a=", "1", "", ""],
    ["let x; ", "a={}=", "1", "", ""],
    ["let x = {}", "+{}", "", "", ""],
    ["let x = a", "\n.b", "", "", ""],
    ["let x = a", "?.b", "", "", ""],
    ["let x = a", "[b]", "", "", ""],
    ["let x = a", "()", "", "", ""],
    ["let x = a", "``", "", "", ""],
    ["let x = ", "x=>", "a", "", ""],
    ["let x = ", "(x)=>", "a", "", ""],
    ["let x: T = ", "(x: T): T=>", "a", "", ""],
    ["let x = ", "async x=>", "a", "", ""],
    ["let x = ", "(", "a", ")", ""],
    ["let x = ", "[", "a", "]", ""],
    ["let x = ", "[1,", "a", "]", ""],
    ["let x = ", "{a:", "1", "}", ""],
    ["let ", "[", "a", "]", "=1"],
    ["let ", "{a:", "b", "}", "=1"],
    ["const x = 1; ", "[(", "x", ")]", "=1"],
    ["let x; ", "{", "", "}", ""],
    ["let x; ", "function f(){", "", "}", ""],
    ["let x = ", "(function(){return ", "1", "})", ""],
    ["let x = ", "()=>{return ", "1", "}", ""],
    ["let x = ", "class{a=", "1", "}", ""],
    ["let x = ", "class{a(){return ", "1", "}}", ""],
    ["let x = ", "class{static{x=", "1", "}}", ""],
    ["let x = ", "class\nextends ", "a", "{}", ""],
    ["let x = ", "class\nA extends ", "a", "{}", ""],
    ["let x = ", "{m(){return ", "1", "}}", ""],
    ["let x = ", "{[", "1", "]:1}", ""],
    ["let x; ", "if(a)\n", "x", "", ""],
    ["let x; ", "if(a)x;else ", "x", "", ""],
    ["let x; ", "if(a){}else ", "x", "", ""],
    ["let x; ", "if(a)x\nelse ", "x", "", ""],
    ["let x; ", "while(a)", "x", "", ""],
    ["let x; ", "for(;;)", "x", "", ""],
    ["let x; ", "for(y of a)", "x", "", ""],
    ["let x; ", "for await(y of a)\n", "x", "", ""],
    ["let x; ", "do ", "x", ";while(a)", ""],
    ["let x; ", "try{", "", "}finally{}", ""],
    ["let x; ", "switch(a){case 1:", "", "}", ""],
    ["let x = ", "a?b:", "a", "", ""],
    ["let x = ", "a?", "a", ":b", ""],
    ["let x = ", "`${", "1", "}`", ""],
    ["let x = ", "f(", "1", ")", ""],
    ["let x = ", "(a=", "1", ")=>1", ""],
    ["let x = function*(){", "yield ", "1", "", "}"],
    ["let x: ", "A<", "B", "\n>", ""],
    ["let x: ", "A<B,", "B", "\n>", ""],
    ["let x: ", "A<{},", "B", "\n>", ""],
    ["let x: ", "A extends B?C:", "A", "", ""],
    ["let x: ", "keyof\n", "A", "", ""],
    ["let x: A", "[]", "", "", ""],
    ["let x: ", "()=>", "A", "", ""],
    ["let x: ", "{a:", "A", "}", ""],
    ["let x: ", "[", "A", "]", ""],
    ["let x: ", "`${", "A", "}`", ""],
    ["let x = a", " as T", "", "", ""],
    ["let x = ", "{} as T ? ", "1", ": 1", ""],
    ["let x: T = a", "!", "", "", ""],
    ["let x = ", "<T>", "a", "", ""],
    ["let x = ", "<T>(x:T)=>", "a", "", ""],
    ["let x: T; ", "namespace A{", "", "}", ""],
    ["let x = /\"/; ", "(", "a", ")", "; /\"/"],
    ["if (1) /\"/; let x = ", "(", "a", ")", "; /\"/"],
    ["let x = {} / 1; x\n/\"/; let y = ", "(", "a", ")", "; /\"/"],
    ["let x = 1.5.return / a; ", "(", "a", ")", " / 1"],
    ["let x = 1. / a; ", "(", "a", ")", " / 1"],
    ["class A { #if() { this.#if(1) / a; ", "(", "a", ")", " / 1 } }"],
    ["for (;;) { break\n/\"/; let y = ", "(", "a", ")", "; /\"/ }"],
    ["a: for (;;) { break a\n/\"/; let y = ", "(", "a", ")", "; /\"/ }"],
    ["let x: T\n/\"/; let y = ", "(", "a", ")", "; /\"/"],
    ["for await (x of y) /\"/; let y = ", "(", "a", ")", "; /\"/"],
    ["let x // `\u{2028}x = ", "(", "a", ")", "; // `"],
    ["let x\n<!-- `\nx = ", "(", "a", ")", "\n// `"],
    ["let x\n--> `\nx = ", "(", "a", ")", "\n// `"],
];

fn code(shape: &[&str; 5], levels: usize) -> String {
    let [before, open, middle, close, after] = shape;
    [before, open.repeat(levels).as_str(), middle, close.repeat(levels).as_str(), after].concat()
}

/// Most levels of a shape that are let through.
fn levels_accepted(shape: &[&str; 5]) -> usize {
    let (mut accepted, mut refused) = (0, LEVELS_MAX);
    while refused - accepted > 1 {
        let levels = (accepted + refused) / 2;
        match measure(&code(shape, levels)) {
            Nesting::Bounded => accepted = levels,
            Nesting::TooDeep(_) | Nesting::Broken => refused = levels,
        }
    }
    accepted
}

fn prepare_on_small_stack(code: String) {
    let prepared = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        for fresh in [false, true] {
            let options = Options { fresh, is_binding: &is_binding };
            drop(prepare(&code, &options));
            drop(rescue(&code, &options));
        }
    });
    prepared.unwrap().join().unwrap();
}

#[test]
fn accepted_code_fits_the_stack() {
    for shape in SHAPES {
        let levels = levels_accepted(shape);
        assert!((20..LEVELS_MAX - 1).contains(&levels), "{shape:?}: {levels} levels");
        prepare_on_small_stack(code(shape, levels));
    }
}

#[test]
fn deep_jsx_does_not_overflow() {
    for levels in [50, 100, 150, 200, 400, 1_000, 20_000] {
        prepare_on_small_stack(code(&["let x = ", "<a>", "it's", "</a>", ""], levels));
    }
}

#[test]
fn deeper_code_is_refused_with_its_place() {
    for shape in SHAPES {
        let code = code(shape, levels_accepted(shape) + 1);
        let error = prepare(&code, &Options { fresh: true, is_binding: &is_binding }).unwrap_err();
        assert_eq!(error.message, "code is nested too deeply", "{shape:?}");
        assert!((error.line, error.column) > (1, 1), "{shape:?}");
    }
}

#[test]
fn long_flat_code_is_not_deep() {
    for (line, count) in [
        ("const a{} = f({}, [1, 2, 3], { b: 'c' });\n", 20_000),
        ("let a{} = b\nfoo(a{})\n", 20_000),
        ("function f{}(a, b) { if (a) { return b } else { return a / 2 } }\n", 20_000),
        ("class C{} { m() { return `x${1}` } get n() { return /[\"'`]/.test(this) } }\n", 20_000),
        ("let a{} = { 'b': [1, 2], c: { d: 1 } }\n", 20_000),
        ("let t{}: Map<string, number> = new Map<string, number>()\n", 20_000),
        ("if (a{}) b(); else c()\n", 20_000),
        ("await a{}()\n", 20_000),
        ("x.y{} = z\n", 20_000),
        ("/* it's */ let s{} = 'don\\'t' // it's\n", 20_000),
    ] {
        let code: String = (0..count).map(|n| line.replace("{}", &n.to_string())).collect();
        assert_eq!(measure(&code), Nesting::Bounded, "{line}");
    }
    let list = format!("let a = [{}]", "1, 'x', ".repeat(100_000));
    assert_eq!(measure(&list), Nesting::Bounded);
    let sum = format!("let a = 'a'{}", " + 'b'".repeat(900));
    assert_eq!(measure(&sum), Nesting::Bounded);
}

/// Each of these would take hours if the pass looked at the rest of the code from every token.
#[test]
fn nesting_pass_is_linear() {
    for (unit, bounded) in [
        ("\u{a0}", true),
        ("a/'[';", true),
        ("a++/'[';", false),
        ("a\n/[", false),
        ("é", true),
        ("/*", false),
        ("function f(){}", true),
        ("$value;", true),
    ] {
        let code = format!("let b;{}", unit.repeat((4 << 20) / unit.len()));
        assert_eq!(measure(&code) == Nesting::Bounded, bounded, "{unit}");
    }
}

#[test]
fn large_broken_code_is_left_to_the_engine() {
    let options = Options { fresh: false, is_binding: &is_binding };
    let code = format!("{} let b = 'x", "let a = 1;\n".repeat(10_000));
    assert_eq!(prepare(&code, &options).unwrap().code, code);
}

/// What opens a level of an expression, and what closes it.
const EXPRESSIONS: &[(&str, &str)] = &[
    ("!", ""),
    ("new ", ""),
    ("1+", ""),
    ("a=", ""),
    ("a?b:", ""),
    ("x=>", ""),
    ("async x=>", ""),
    ("await ", ""),
    ("(", ")"),
    ("[1,", "]"),
    ("{a:", "}"),
    ("f(", ")"),
    ("`${", "}`"),
    ("(a=", ")=>1"),
    ("{[", "]:1}"),
    ("{m(){return ", "}}"),
    ("()=>{return ", "}"),
    ("(function(){return ", "})"),
    ("class{a(){return ", "}}"),
    ("class{a=", "}"),
    ("class extends ", "{}"),
];

fn mixture(parts: &[(&str, &str)], levels: usize) -> String {
    let nested: Vec<_> = parts.iter().cycle().take(levels).collect();
    let opens = nested.iter().map(|(open, _)| *open);
    let closes = nested.iter().rev().map(|(_, close)| *close);
    ["const x = "].into_iter().chain(opens).chain(["a"]).chain(closes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn accepted_mixtures_fit_the_stack(
        parts in prop::collection::vec(prop::sample::select(EXPRESSIONS), 1..6),
    ) {
        let mut levels = 1;
        while measure(&mixture(&parts, levels + levels / 20 + 1)) == Nesting::Bounded {
            levels += levels / 20 + 1;
        }
        prepare_on_small_stack(mixture(&parts, levels));
    }
}

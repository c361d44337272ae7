//! Laws that hold for any sequence of declarations.

use std::borrow::Cow;
use std::collections::HashSet;

use proptest::prelude::*;

use super::super::{Options, SourceError, prepare, rescue};
use super::harness::{Session, is_binding};

#[derive(Debug, Clone)]
struct Declaration {
    text: String,
    name: String,
    lexical: bool,
}

fn declaration() -> impl Strategy<Value = Declaration> {
    let forms = prop_oneof![
        Just(("const N = 1", true)),
        Just(("let N", true)),
        Just(("let N: number = 1 as any", true)),
        Just(("class N { m() { return 'é' } }", true)),
        Just(("var N = 1", false)),
        Just(("{ var N = 1 }", false)),
        Just(("function N() {}", false)),
    ];
    (forms, "[abcdé]", prop_oneof![Just(";"), Just("\n"), Just(" // é\n"), Just("; /* é */ ")]).prop_map(
        |((form, lexical), name, end)| Declaration { text: form.replace('N', &name) + end, name, lexical },
    )
}

fn prepared(code: &str, fresh: bool) -> Result<(String, super::super::Positions), SourceError> {
    let prepared = prepare(code, &Options { fresh, is_binding: &is_binding })?;
    Ok((prepared.code.into_owned(), prepared.positions))
}

fn has_duplicate(declarations: &[Declaration]) -> bool {
    let mut lexical = HashSet::new();
    let mut var = HashSet::new();
    declarations.iter().any(|Declaration { name, lexical: is_lexical, .. }| {
        let taken = lexical.contains(name) || (*is_lexical && var.contains(name));
        if *is_lexical {
            lexical.insert(name)
        } else {
            var.insert(name)
        };
        taken
    })
}

proptest! {
    #[test]
    fn declarations_run_twice_unless_one_is_a_duplicate(declarations in prop::collection::vec(declaration(), 0..6)) {
        let code: String = declarations.iter().map(|declaration| declaration.text.as_str()).collect();
        let session = Session::new();
        for _ in 0..2 {
            let result = session.eval(&format!("{code}\n7"));
            if has_duplicate(&declarations) {
                prop_assert!(result.ends_with("has already been declared"), "{result}");
            } else {
                prop_assert_eq!(&result, "7");
            }
        }
    }

    #[test]
    fn positions_keep_lines_and_order(
        declarations in prop::collection::vec(declaration(), 0..6),
        fresh in any::<bool>(),
    ) {
        let code: String = declarations.iter().map(|declaration| declaration.text.as_str()).collect();
        if let Ok((output, positions)) = prepared(&code, fresh) {
            for (index, line) in output.split('\n').enumerate() {
                let line_number = u32::try_from(index + 1).unwrap();
                let mut last = 1;
                for column in 1..=u32::try_from(line.len() + 1).unwrap() {
                    let Some((original_line, original)) = positions.original(line_number, column) else {
                        prop_assert!(index >= code.split('\n').count(), "{} has a place", line);
                        break;
                    };
                    prop_assert_eq!(original_line, line_number);
                    prop_assert!(original >= last, "{} < {} in {}", original, last, output);
                    last = original;
                }
            }
        }
    }

    #[test]
    fn any_text_is_prepared_without_a_panic(code in "[let const{}()=>;:`$'\"/\\\\<!\\-aé\n0.,?\\[\\]@]{0,60}", fresh in any::<bool>()) {
        let options = Options { fresh, is_binding: &is_binding };
        drop(prepare(&code, &options));
        drop(rescue(&code, &options));
    }

    #[test]
    fn code_is_unchanged_only_if_nothing_persists(
        parts in prop::collection::vec(
            prop_oneof![
                Just("let N = 1;"), Just("const N = 2\n"), Just("class N {}\n"), Just("{ let N = 3; }"),
                Just("(() => { const N = 4; return N })();"), Just("for (const N of [5]) {}\n"), Just("`${'`{'}`;"),
                Just("`"), Just("${"), Just("'{';"), Just("/[{(]/;"), Just("/}/"), Just("x / 2\n"), Just("{"), Just("}"),
                Just("("), Just(")"), Just("if (x)"), Just("// {\n"), Just("/* ( */"), Just("x.const;"), Just("f = class {};"),
                Just("function getOrder() {}"), Just("let N: number = 6;"), Just("async () => {"), Just("++\n"),
            ],
            0..8,
        ),
    ) {
        let code: String = parts.iter().enumerate().map(|(n, part)| part.replace('N', &format!("n{n}"))).collect();
        let options = Options { fresh: false, is_binding: &is_binding };
        if let Ok(prepared) = prepare(&code, &options)
            && matches!(prepared.code, Cow::Borrowed(_))
            && matches!(rescue(&code, &options), Ok(Some(_)))
        {
            let result = Session::new().run(&code);
            prop_assert!(result.starts_with("SyntaxError"), "{code} evaluates to {result}");
        }
    }

    #[test]
    fn any_expression_keeps_its_value_when_fresh(
        parts in prop::collection::vec(
            prop_oneof![
                Just("1;"), Just("let N = 2;"), Just("{ 3 }"), Just("if (x) 4\n"), Just("if (x) { 5 } else 6;"),
                Just("for (const i of [7, 8]) i;"), Just("try { 9 } finally { 10 }"), Just("var v;"), Just(";"),
                Just("switch (x) { case 1: 11 }"), Just("function f() { return 12 }"), Just("l: { 13; break l; }"),
                Just("do 14; while (0) "), Just("if (!x) 15;"),
            ],
            0..6,
        ),
    ) {
        let code: String = parts.iter().enumerate().map(|(n, part)| part.replace('N', &format!("n{n}"))).collect();
        let code = format!("var x = 1; {code}");
        prop_assert_eq!(Session::fresh().eval(&code), Session::new().run(&code));
    }
}

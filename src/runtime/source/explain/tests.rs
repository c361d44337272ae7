//! Code that does not parse, and what is said about it.

use super::explain;

/// Codes that do not parse; what is said, and where.
const EXPLAINED: &[(&str, &str, (u32, u32))] = &[
    (
        "interface X {a: number}\nconst x: X = {a: 1};\nconst y = [1, 2;",
        "Expected `,` or `]` but found `;`; `[` was opened on line 3",
        (3, 16),
    ),
    (
        "function f() {\n  await g();\n}",
        "`await` is only allowed in an async function: declare `f` on line 1 as `async function f`",
        (2, 3),
    ),
    (
        "const a = [1].map(x => {\n  return await g(x);\n});",
        "`await` is only allowed in an async function: write `async` before the arrow function on line 1",
        (2, 10),
    ),
    (
        "function f() {\n  if (1) {\n    g();\n}\nf();",
        "`{` opened on line 2 is never closed: `}` is missing",
        (2, 10),
    ),
    ("function f() {\n  g();\n", "`{` opened on line 1 is never closed: `}` is missing", (1, 14)),
    ("f(1));", "Unexpected `)`: there is no `(` that it could close", (1, 5)),
    ("}\nlet a = 1", "Unexpected `}`: there is no `{` that it could close", (1, 1)),
    ("f(\n  1,\n  2\ng();", "Expected `,` or `)` but found `Identifier`; `(` was opened on line 1", (4, 1)),
    ("const s = “hello”;", "`“` is a typographic quote: write `\"` instead", (1, 11)),
    ("f(‘a’)", "`‘` is a typographic quote: write `'` instead", (1, 3)),
    ("def f(x):\n    return x", "this is Python: the session runs JavaScript and TypeScript", (1, 1)),
    (
        "import json\nprint(json.dumps(1))",
        "this is Python: the session runs JavaScript and TypeScript",
        (1, 1),
    ),
    (
        "x = 1\nfor i in range(3):\n    print(i)",
        "this is Python: the session runs JavaScript and TypeScript",
        (2, 1),
    ),
    ("from os import path", "this is Python: the session runs JavaScript and TypeScript", (1, 1)),
    (
        "Here is the code:\n```js\n1 + 1\n```\nIt adds.",
        "this is a Markdown fence: send only the code, without the text around it",
        (2, 1),
    ),
];

#[test]
fn broken_code_is_explained_at_its_place() {
    for (code, message, place) in EXPLAINED {
        let error = explain(code).unwrap_or_else(|| panic!("{code} is not explained"));
        assert_eq!((error.message.as_str(), (error.line, error.column)), (*message, *place), "{code}");
    }
}

#[test]
fn words_of_other_languages_in_texts_are_not_taken_for_code() {
    for code in [
        "const a = `\nimport os\n`;\nlet x: = 1",
        "const a = '“x”'; // ‘c’\nlet x = = 1",
        "const o = {\n  try: 1,\n  else: 2 };\nlet x = = 1",
    ] {
        let message = explain(code).map(|error| error.message).unwrap_or_default();
        assert!(!message.contains("typographic") && !message.contains("fence"), "{message}");
    }
}

#[test]
fn long_code_is_left_to_the_engine() {
    let code = format!("{}\nlet a = = 1", " ".repeat(super::EXPLAINED_BYTES_MAX));
    assert!(explain(&code).is_none());
}

//! What a report shows, and how long it may be.

use serde_json::json;

use super::*;

fn source(code: &str) -> EvalSource {
    EvalSource { code: code.to_owned(), name: "eval-1.js".to_owned(), fresh: false }
}

fn line(level: &str, text: &str) -> ConsoleLine {
    ConsoleLine { level: level.to_owned(), text: text.to_owned(), at_ms: 0, late: false }
}

#[test]
fn report_shows_place_callers_and_console() {
    let error = ErrorObject::new(Kind::EvalError, "TypeError: x is not a function")
        .with("stack", "    at f (eval-1.js:2:10)\n    at <eval> (eval-1.js:4:1)")
        .with("suggestions", json!(["kv.get"]));
    let code = "function f() {\n\treturn  x();\n}\nf()\nlast";
    let report = write(&error, &source(code), &[line("log", "a"), line("error", "b")]);
    assert_eq!(
        report,
        "TypeError: x is not a function\n  at eval-1.js:2:10\n  1 | function f() {\n> 2 | \treturn  x();\n    | \t        ^\n  \
         3 | }\n    at f (eval-1.js:2:10)\n    at <eval> (eval-1.js:4:1)\ndid you mean kv.get?\nconsole:\n  a\n  error: b"
    );
}

#[test]
fn place_outside_of_the_code_has_no_frame() {
    for stack in [
        "",
        "    at f (native)",
        "    at f (eval-1.js:9:1)",
        "    at (eval-1.js:1:99)",
        "    at (my-eval-1.js:1:1)",
    ] {
        let error = ErrorObject::new(Kind::EvalError, "Error: no").with("stack", stack);
        let report = write(&error, &source("f()"), &[]);
        assert!(!report.contains('^'), "{report}");
    }
}

#[test]
fn kind_is_named_unless_the_message_does() {
    let report = |kind, message: &str| write(&ErrorObject::new(kind, message), &source(""), &[]);
    assert_eq!(report(Kind::Timeout, "too slow"), "Timeout: too slow");
    assert_eq!(report(Kind::SyntaxError, "SyntaxError: no"), "SyntaxError: no");
    assert_eq!(report(Kind::EvalError, "Error: no"), "Error: no");
}

#[test]
fn causes_and_further_errors_are_listed() {
    let error = ErrorObject::new(Kind::EvalError, "AggregateError: All promises were rejected")
        .with("errors", json!([{"name": "Error", "message": "a"}, 7]))
        .with("properties", json!({"status": 404}))
        .with("cause", json!({"name": "RangeError", "message": "b", "cause": {"message": "c", "data": {"kind": "Busy"}}}));
    let report = write(&error, &source(""), &[]);
    let expected =
        "properties: {\"status\":404}\n- Error: a\n- 7\ncaused by RangeError: b\ncaused by Busy: c";
    assert!(report.ends_with(expected), "{report}");
}

#[test]
fn report_is_bounded_in_every_part() {
    let long = "é".repeat(100_000);
    let stack: String = (0..500).map(|n| format!("    at f{n} (eval-1.js:1:50001)\n")).collect();
    let mut causes = json!({"name": "E", "message": long});
    for _ in 0..40 {
        causes = json!({"name": "E", "message": long, "cause": causes, "errors": vec![json!({"message": long}); 40]});
    }
    let error = ErrorObject::new(Kind::EvalError, long.as_str())
        .with("stack", stack)
        .with("cause", causes)
        .with("properties", json!({"a": long}))
        .with("suggestions", vec![json!(long); 40]);
    let lines: Vec<ConsoleLine> = (0..1000).map(|_| line("log", &long)).collect();
    let report = write(&error, &source(&long), &lines);
    assert!(report.len() <= REPORT_BYTES_MAX, "{}", report.len());
    assert!(report.contains("... 492 more"), "{report}");
    let short = ErrorObject::new(Kind::EvalError, "no");
    let report = write(&short, &source(""), &lines);
    assert!(report.contains("console (990 earlier lines left out):"), "{report}");
}

//! A failed eval, shown to a person: the message, the line it happened in with a mark under the place, the stack.

use std::fmt::Write as _;

use scomp::client::ClientError;
use serde_json::Value;

use super::inspect::{Paint, Style, inspect};

/// Longest source line that is shown; a longer one is generated, and would hide the message.
const SOURCE_LINE_CHARS_MAX: usize = 160;

/// A place in the code, counted from 1; columns count bytes, as the engine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

/// The code that was evaluated, and its name in stack traces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) code: &'a str,
}

/// Describes the error of an eval.
pub(super) fn describe(error: &ClientError, source: Source<'_>, style: Style) -> String {
    let Some(answer) = error.rpc() else {
        return style.paint(Paint::Error, &error.to_string());
    };
    let data = answer.data.as_ref();
    let mut text = style.paint(Paint::Error, &answer.message);
    if !answer.message.contains(error.kind()) && error.kind() != "EvalError" {
        let _ = write!(text, " {}", style.paint(Paint::Faint, &format!("({})", error.kind())));
    }
    let stack = data.and_then(|data| data.get("stack")?.as_str()).unwrap_or_default();
    if let Some(excerpt) = place(stack, source.name).and_then(|place| excerpt(source.code, place, style)) {
        let _ = write!(text, "\n{excerpt}");
    }
    for frame in stack.lines().filter(|frame| !frame.trim().is_empty()) {
        let _ = write!(text, "\n{}", style.paint(Paint::Faint, frame));
    }
    for cause in causes(data) {
        let _ = write!(text, "\ncaused by {cause}");
    }
    if let Some(names) = suggestions(data) {
        let _ = write!(text, "\ndid you mean {names}?");
    }
    if data.is_some_and(|data| data.get("sessionLost") == Some(&Value::Bool(true))) {
        text.push_str("\nthe state of the session is lost");
    }
    text
}

/// How many console lines a failed eval printed beyond those that were kept.
pub(super) fn console_dropped(error: &ClientError) -> u64 {
    let data = error.rpc().and_then(|answer| answer.data.as_ref());
    data.and_then(|data| data.get("consoleDropped")?.as_u64()).unwrap_or_default()
}

/// The messages of the causes, outermost first. An error has a name; the answer of a binding has a kind instead.
fn causes(data: Option<&Value>) -> Vec<String> {
    let causes = std::iter::successors(data.and_then(|data| data.get("cause")), |cause| cause.get("cause"));
    let field = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    causes
        .map(|cause| match field(cause, "message") {
            Some(message) => {
                let kind = || cause.get("data").and_then(|data| field(data, "kind"));
                let name = field(cause, "name").or_else(kind).unwrap_or_else(|| "Error".to_owned());
                format!("{name}: {message}")
            }
            None => inspect(cause, Style::plain()),
        })
        .collect()
}

fn suggestions(data: Option<&Value>) -> Option<String> {
    let names: Vec<&str> = data?.get("suggestions")?.as_array()?.iter().filter_map(suggested_name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn suggested_name(suggestion: &Value) -> Option<&str> {
    suggestion.as_str().or_else(|| suggestion.get("name")?.as_str())
}

/// The place of the innermost frame in the code of that name, as `NAME:LINE:COLUMN` ends it.
/// Other frames belong to earlier evals, whose code is not at hand.
fn place(stack: &str, name: &str) -> Option<Place> {
    stack.lines().find_map(|frame| {
        let mut numbers = frame.trim_end().trim_end_matches(')').rsplitn(3, ':');
        let column = numbers.next()?.parse().ok()?;
        let line = numbers.next()?.parse().ok()?;
        numbers.next()?.ends_with(name).then_some(Place { line, column })
    })
}

/// The line of the place, and a mark under it.
fn excerpt(code: &str, place: Place, style: Style) -> Option<String> {
    let line = code.lines().nth(place.line.checked_sub(1)?)?;
    let before = line.get(..place.column.checked_sub(1)?)?;
    if line.chars().count() > SOURCE_LINE_CHARS_MAX {
        return None;
    }
    // Tabs stay tabs, so that the mark stands where the place does.
    let indent: String = before.chars().map(|char| if char == '\t' { '\t' } else { ' ' }).collect();
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    Some(format!(
        "{} {line}\n{} {indent}{}",
        style.paint(Paint::Faint, &format!("{number} |")),
        style.paint(Paint::Faint, &format!("{margin} |")),
        style.paint(Paint::Error, "^"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scomp::rpc::{ErrorObject, Kind};

    fn described(kind: Kind, message: &str, stack: &str, code: &str) -> String {
        let error = ErrorObject::new(kind, message).with("stack", stack);
        describe(&ClientError::from(error), Source { name: "eval", code }, Style::plain())
    }

    #[test]
    fn error_place_is_marked_under_its_line() {
        let text = described(
            Kind::EvalError,
            "ReferenceError: foo is not defined",
            "    at <anonymous> (eval:2:11)\n",
            "1\nconst x = foo",
        );
        assert_eq!(
            text,
            "ReferenceError: foo is not defined\n2 | const x = foo\n  |           ^\n    at <anonymous> (eval:2:11)"
        );
    }

    #[test]
    fn place_outside_of_the_code_is_not_marked() {
        for stack in [
            "",
            "    at f (native)",
            "    at f (eval:9:1)",
            "    at f (eval:1:99)",
            "    at f (eval:0:0)",
            "    at f (other:1:1)",
        ] {
            let text = described(Kind::EvalError, "Error: no", stack, "f()");
            assert!(!text.contains('^'), "{text}");
        }
    }

    #[test]
    fn kind_is_shown_unless_the_message_names_it() {
        assert_eq!(
            described(Kind::MemoryLimit, "InternalError: out of memory", "", ""),
            "InternalError: out of memory (MemoryLimit)"
        );
        assert_eq!(described(Kind::SyntaxError, "SyntaxError: no", "", ""), "SyntaxError: no");
    }

    #[test]
    fn similar_names_are_suggested() {
        let error = ErrorObject::new(Kind::EvalError, "ReferenceError: getOder is not defined")
            .with("suggestions", serde_json::json!(["getOrder"]));
        let text = describe(&ClientError::from(error), Source { name: "", code: "" }, Style::plain());
        assert!(text.ends_with("did you mean getOrder?"), "{text}");
    }
}

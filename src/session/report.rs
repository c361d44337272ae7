//! `data.report` of a failed eval: the text from which a person or a model repairs the code.
//!
//! It has the message, the place with the code around it, the causes, what was probably meant, and the end of the
//! console. Every part has a limit of its own, so that none displaces another.

use std::fmt::Write as _;

use serde_json::Value;

use super::tables::{ConsoleLine, EvalSource};
use crate::rpc::{ErrorObject, Kind};

/// Longest report.
/// It goes to a model, whose context is expensive. The clients cut a longer one.
pub(crate) const REPORT_BYTES_MAX: usize = 8_000;

/// Longest message in a report; the whole of it is in `message`.
const MESSAGE_BYTES_MAX: usize = 2 << 10;

/// Longest line of code that is shown; of a longer one, the part around the place.
const CODE_LINE_CHARS_MAX: usize = 160;

/// Lines of code before the place, and after it.
const LINES_BEFORE: usize = 2;
const LINES_AFTER: usize = 1;

/// Frames of the stack that are shown.
const FRAMES_MAX: usize = 8;

/// Causes, errors of an `AggregateError` and failures of a schema that are shown.
const ITEMS_MAX: usize = 8;

/// Longest text of one of these, of own properties, and of a line of the console.
const ITEM_BYTES_MAX: usize = 400;

/// Lines of the console that are shown: the last ones.
const CONSOLE_LINES_MAX: usize = 10;

/// A place in the code as sent, counted from 1; columns count bytes, as the engine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

/// Writes the report on an eval that failed.
pub(super) fn write(error: &ErrorObject, source: &EvalSource, console: &[ConsoleLine]) -> String {
    let mut report = headline(error);
    let stack = field(error, "stack").and_then(Value::as_str).unwrap_or_default();
    let place = place_in(stack, &source.name);
    if let Some(place) = place {
        let _ = write!(report, "\n  at {}:{}:{}", source.name, place.line, place.column);
        code_frame(&mut report, &source.code, place);
    }
    frames(&mut report, stack, place.is_some());
    details(&mut report, error);
    suggestions(&mut report, error);
    if field(error, "sessionLost") == Some(&Value::Bool(true)) {
        report.push_str("\nthe state of the session is lost: declare again what the code needs");
    }
    console_tail(&mut report, console);
    cut(&mut report, REPORT_BYTES_MAX);
    report
}

fn field<'a>(error: &'a ErrorObject, name: &str) -> Option<&'a Value> {
    error.data.as_ref()?.get(name)
}

/// The message, with the kind where the message does not say what happened.
fn headline(error: &ErrorObject) -> String {
    let mut message = error.message.clone();
    cut(&mut message, MESSAGE_BYTES_MAX);
    match error.kind() {
        Some(kind) if kind != Kind::EvalError.name() && !message.starts_with(kind) => {
            format!("{kind}: {message}")
        }
        Some(_) | None => message,
    }
}

/// The place of the innermost frame in this code. Other frames are of earlier evals, whose code is not kept.
fn place_in(stack: &str, name: &str) -> Option<Place> {
    stack.lines().find_map(|frame| {
        let mut numbers = frame.trim_end().trim_end_matches(')').rsplitn(3, ':');
        let column = numbers.next()?.parse().ok()?;
        let line = numbers.next()?.parse().ok()?;
        let file = numbers.next()?;
        (file == name || file.ends_with(&format!("({name}")) || file.ends_with(&format!(" {name}")))
            .then_some(Place { line, column })
    })
}

/// The lines around a place, and a caret under it; nothing if the code has no such place.
fn code_frame(report: &mut String, code: &str, place: Place) {
    let Some(index) = place.line.checked_sub(1) else { return };
    let Some(line) = code.lines().nth(index) else { return };
    let Some(before) = place.column.checked_sub(1).and_then(|column| line.get(..column)) else { return };
    let last = index + LINES_AFTER;
    let width = (last + 1).to_string().len();
    let first = index.saturating_sub(LINES_BEFORE);
    for (number, text) in code.lines().enumerate().take(last + 1).skip(first) {
        let skipped = if number == index { hidden_chars(before) } else { 0 };
        let shown: String = text.chars().skip(skipped).take(CODE_LINE_CHARS_MAX).collect();
        let mark = if number == index { '>' } else { ' ' };
        let _ = write!(report, "\n{mark} {:>width$} | {}", number + 1, shown.trim_end());
        if number == index {
            // Tabs stay tabs, so that the caret stands under the place.
            let indent: String =
                before.chars().skip(skipped).map(|char| if char == '\t' { '\t' } else { ' ' }).collect();
            let _ = write!(report, "\n  {:>width$} | {indent}^", "");
        }
    }
}

/// Characters that are left out at the start of a long line, so that its place is shown.
fn hidden_chars(before: &str) -> usize {
    let column = before.chars().count();
    if column < CODE_LINE_CHARS_MAX { 0 } else { column - CODE_LINE_CHARS_MAX / 2 }
}

/// The callers; of a stack with only the place itself, nothing.
fn frames(report: &mut String, stack: &str, has_place: bool) {
    let frames: Vec<&str> = stack.lines().filter(|frame| frame.trim_start().starts_with("at ")).collect();
    if has_place && frames.len() < 2 {
        return;
    }
    for frame in frames.iter().take(FRAMES_MAX) {
        item(report, "    ", frame.trim());
    }
    if frames.len() > FRAMES_MAX {
        let _ = write!(report, "\n    ... {} more", frames.len() - FRAMES_MAX);
    }
}

/// What the error says beside its message: failures of a schema, own properties, further errors, causes.
fn details(report: &mut String, error: &ErrorObject) {
    let data = error.data.as_ref();
    if let Some(path) = field(error, "path").and_then(Value::as_str).filter(|path| !path.is_empty()) {
        item(report, "in the value at ", path);
    }
    if let Some(properties) = field(error, "properties") {
        item(report, "properties: ", &properties.to_string());
    }
    for listed in list(data, "errors") {
        item(report, "- ", &describe(listed));
    }
    let causes = std::iter::successors(data.and_then(|data| data.get("cause")), |cause| cause.get("cause"));
    for cause in causes.take(ITEMS_MAX) {
        // The answer of a binding is the error itself, not something behind it.
        if !error.message.ends_with(message_of(cause).unwrap_or("\0")) {
            item(report, "caused by ", &describe(cause));
        }
        for listed in list(Some(cause), "errors") {
            item(report, "- ", &describe(listed));
        }
    }
}

fn list<'a>(data: Option<&'a Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    let items = data.and_then(|data| data.get(name)).and_then(Value::as_array);
    items.into_iter().flatten().take(ITEMS_MAX)
}

fn message_of(value: &Value) -> Option<&str> {
    value.get("message").and_then(Value::as_str)
}

/// An error has a name; the answer of a binding has a kind instead, and a failure of a schema a path.
fn describe(value: &Value) -> String {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let Some(message) = message_of(value) else { return value.to_string() };
    let kind = || value.get("data").and_then(|data| text(data, "kind"));
    match text(value, "name").or_else(|| text(value, "path")).or_else(kind) {
        Some(name) if !name.is_empty() => format!("{name}: {message}"),
        Some(_) | None => message.to_owned(),
    }
}

fn suggestions(report: &mut String, error: &ErrorObject) {
    let names: Vec<&str> = list(error.data.as_ref(), "suggestions")
        .filter_map(|name| name.as_str().or_else(|| name.get("name")?.as_str()))
        .collect();
    if !names.is_empty() {
        item(report, "did you mean ", &format!("{}?", names.join(", ")));
    }
}

fn console_tail(report: &mut String, console: &[ConsoleLine]) {
    let hidden = console.len().saturating_sub(CONSOLE_LINES_MAX);
    match (console.len(), hidden) {
        (0, _) => return,
        (_, 0) => report.push_str("\nconsole:"),
        (_, hidden) => {
            let _ = write!(report, "\nconsole ({hidden} earlier lines left out):");
        }
    }
    for line in console.iter().skip(hidden) {
        let level = if line.level == "log" { String::new() } else { format!("{}: ", line.level) };
        item(report, "  ", &format!("{level}{}", line.text));
    }
}

/// A line of the report, cut where it is too long.
fn item(report: &mut String, head: &str, text: &str) {
    let mut text = text.to_owned();
    cut(&mut text, ITEM_BYTES_MAX);
    let _ = write!(report, "\n{head}{text}");
}

fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
}

#[cfg(test)]
mod tests;

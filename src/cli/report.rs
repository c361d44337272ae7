//! A failed eval, shown to a person: the server's report, in colours.

use scomp::client::ClientError;

use super::inspect::{Paint, Style};

/// How the last part of a report begins: the lines of the console, which a terminal has shown already.
const CONSOLE_PART: &str = "\nconsole";

/// The code that was evaluated, and its name in stack traces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) code: &'a str,
}

/// Describes the error of an eval.
pub(super) fn describe(error: &ClientError, style: Style) -> String {
    let report = error.report();
    let has_console = !error.console().is_empty();
    let shown = match report.rfind(CONSOLE_PART) {
        Some(end) if has_console => report.get(..end).unwrap_or(&report),
        Some(_) | None => &report,
    };
    let mut lines = Vec::new();
    for (number, line) in shown.lines().enumerate() {
        let is_quiet = line.starts_with("    at ") || line.starts_with("  at ");
        lines.push(match number {
            0 => style.paint(Paint::Error, line),
            _ if is_quiet => style.paint(Paint::Faint, line),
            _ => line.to_owned(),
        });
    }
    lines.join("\n")
}

/// How many console lines a failed eval printed beyond those that were kept.
pub(super) fn console_dropped(error: &ClientError) -> u64 {
    let data = error.rpc().and_then(|answer| answer.data.as_ref());
    data.and_then(|data| data.get("consoleDropped")?.as_u64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scomp::rpc::{ErrorObject, Kind};
    use serde_json::json;

    #[test]
    fn report_of_the_server_is_shown_without_its_console() {
        let error = ErrorObject::new(Kind::EvalError, "Error: no")
            .with("report", "Error: no\n  at a.js:1:1\nconsole:\n  hi")
            .with("console", json!([{"level": "log", "text": "hi", "atMs": 0}]));
        assert_eq!(describe(&ClientError::from(error), Style::plain()), "Error: no\n  at a.js:1:1");
    }

    #[test]
    fn error_without_a_report_is_its_message() {
        let error = ErrorObject::new(Kind::Busy, "try later");
        assert_eq!(describe(&ClientError::from(error), Style::plain()), "Busy: try later");
    }
}

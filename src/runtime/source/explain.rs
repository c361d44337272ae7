//! What is wrong with a code that neither the engine nor `rescue` can make a program of, said as its writer needs it.
//!
//! The engine stops at the first token it cannot use, and takes TypeScript for broken JavaScript. The parser that erases
//! types knows better; before it, code that is not JavaScript at all is recognised. Only code that was refused comes here.

mod brackets;
mod language;

use oxc_allocator::Allocator;
use oxc_ast::ast::{ArrowFunctionExpression, Function};
use oxc_ast_visit::{Visit, walk};
use oxc_span::Span;
use oxc_syntax::scope::ScopeFlags;

use super::parse::{self, ParsedCode};
use super::{SourceError, nesting};
use crate::session::positions;

/// Longest code that is explained; what is longer is generated, and the engine's own error has to do.
const EXPLAINED_BYTES_MAX: usize = 1 << 20;

/// Characters of the code that a message quotes.
const QUOTED_CHARS_MAX: usize = 24;

/// Explains a code that was refused; `None` when the engine's error says it best.
pub(crate) fn explain(code: &str) -> Option<SourceError> {
    if code.len() > EXPLAINED_BYTES_MAX {
        return None;
    }
    if let Some((offset, message)) = language::recognise(code) {
        return Some(SourceError::in_code(code, offset, message));
    }
    let brackets = || brackets::explain(code).map(|(at, message)| SourceError::in_code(code, at, message));
    if !matches!(nesting::measure(code), nesting::Nesting::Bounded) {
        return brackets();
    }
    let arena = Allocator::default();
    let text = parse::wrap(&arena, code);
    let parsed = parse::parse_typescript(&arena, text);
    let end = ParsedCode::BASE + code.len();
    let Some(first) = parsed.diagnostics.first() else { return brackets() };
    let mut labels = first.labels.iter();
    let at = labels.next().map_or(end, |label| label.offset() as usize);
    // Behind the code is the brace of the wrapper, which a bracket of the code was taken to match.
    if at >= end {
        return brackets();
    }
    let opened =
        labels.find(|label| label.label() == Some("Opened here")).map(|label| label.offset() as usize);
    let offset = at.saturating_sub(ParsedCode::BASE);
    // A bracket too many ends the wrapper or a statement, and the parser complains about what follows.
    if let Some(unopened) = brackets::unopened(code).filter(|unopened| unopened.0 <= offset) {
        return Some(SourceError::in_code(code, unopened.0, unopened.1));
    }
    let message =
        if first.message.contains("`await` is only allowed") || first.message.contains("`for await`") {
            explain_await(&parsed.program, code, at)
        } else {
            reword(&first.message, code, offset, opened.and_then(|at| at.checked_sub(ParsedCode::BASE)))
        };
    Some(SourceError::in_code(code, offset, message))
}

/// The parser's message with what is at the place, and where the bracket was opened.
fn reword(message: &str, code: &str, offset: usize, opened: Option<usize>) -> String {
    let mut text = message.trim_end_matches('.').to_owned();
    if text == "Unexpected token" {
        let token: String =
            code.get(offset..).unwrap_or_default().chars().take_while(|char| *char != '\n').collect();
        let quoted: String = token.chars().take(QUOTED_CHARS_MAX).collect();
        text = format!("Unexpected token at `{quoted}`");
    }
    if let Some(opened) = opened {
        let bracket = code.get(opened..).and_then(|rest| rest.chars().next()).unwrap_or('{');
        let (line, _) = positions::locate(code, opened);
        text = format!("{text}; `{bracket}` was opened on line {line}");
    }
    text
}

/// Names the function that has to become async.
fn explain_await(program: &oxc_ast::ast::Program<'_>, code: &str, at: usize) -> String {
    let mut finder = Enclosing { at: u32::try_from(at).unwrap_or(u32::MAX), found: None };
    finder.visit_program(program);
    let head = "`await` is only allowed in an async function";
    let Some((span, name, is_arrow)) = finder.found else { return head.to_owned() };
    let (line, _) = positions::locate(code, (span.start as usize).saturating_sub(ParsedCode::BASE));
    match (name, is_arrow) {
        (Some(name), _) => format!("{head}: declare `{name}` on line {line} as `async function {name}`"),
        (None, true) => format!("{head}: write `async` before the arrow function on line {line}"),
        (None, false) => format!("{head}: write `async` before the function on line {line}"),
    }
}

/// The innermost function around an offset that is not async: its span, its name, whether it is an arrow function.
struct Enclosing {
    at: u32,
    found: Option<(Span, Option<String>, bool)>,
}

impl Enclosing {
    fn contains(&self, span: Span) -> bool {
        span.start <= self.at && self.at < span.end
    }
}

impl<'a> Visit<'a> for Enclosing {
    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        if !function.r#async && self.contains(function.span) {
            let name = function.id.as_ref().map(|id| id.name.to_string());
            self.found = Some((function.span, name, false));
        }
        walk::walk_function(self, function, flags);
    }

    fn visit_arrow_function_expression(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        if !arrow.r#async && self.contains(arrow.span) {
            self.found = Some((arrow.span, None, true));
        }
        walk::walk_arrow_function_expression(self, arrow);
    }
}

#[cfg(test)]
mod tests;

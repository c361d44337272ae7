//! An eval whose declarations do not persist: the code becomes the body of an async arrow function, so that its
//! declarations stay native and local while `this` and sloppy mode stay those of the script. A function has no
//! completion value, so each statement that has one writes it to a parameter, which is returned in an array
//! (bare, a thenable would be awaited).

use std::collections::HashSet;

use oxc_ast::ast::{ExpressionStatement, Statement};
use oxc_span::{GetSpan, Span};

use super::declarations::ends_in_semicolon;
use super::edit::Edits;
use super::parse::ParsedCode;

/// Longest run of digits that is looked at after the stem of the hidden name.
/// No code has room for that many names, so a longer run cannot be in the way.
const SUFFIX_DIGITS_MAX: usize = 10;

/// Wraps a code; what it returns at its top level has to become a list too.
pub(super) fn wrap(parsed: &ParsedCode, edits: &mut Edits) {
    let mut wrapper = Wrapper { parsed, edits, value: unused_name(parsed.text) };
    let start = u32::try_from(ParsedCode::BASE).unwrap_or(u32::MAX);
    // The name is that of the frame in stack traces; the frame around it is on the line behind the code, and is left out.
    let open = format!("(await ({{\"<eval>\": async ({}) => {{", wrapper.value);
    // A hashbang is one at the very start only.
    if parsed.slice(start, parsed.end()).starts_with("//") {
        wrapper.edits.replace(start, start + 2, open + "//");
    } else {
        wrapper.edits.insert(start, open);
    }
    wrapper.statements(&parsed.body.statements);
    // A directive that is not followed by an expression is the value.
    let initial = parsed.body.directives.last().map_or("", |directive| {
        let span = directive.expression.span;
        parsed.slice(span.start, span.end)
    });
    let close = format!("\n;return [{}]}}}})[\"<eval>\"]({initial}))[0]", wrapper.value);
    wrapper.edits.insert(parsed.end(), close);
}

/// A name the text does not have, found in one pass over it.
fn unused_name(text: &str) -> String {
    const STEM: &str = "$value";
    let taken: HashSet<&str> = text
        .match_indices(STEM)
        .filter_map(|(at, _)| text.get(at + STEM.len()..))
        .map(|rest| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).take(SUFFIX_DIGITS_MAX).count();
            rest.get(..digits).unwrap_or_default()
        })
        .collect();
    let free = (0..=taken.len()).map(|n| n.to_string()).find(|suffix| !taken.contains(suffix.as_str()));
    format!("{STEM}{}", free.unwrap_or_default())
}

struct Wrapper<'b, 'a> {
    parsed: &'b ParsedCode<'a>,
    edits: &'b mut Edits,
    value: String,
}

impl<'a> Wrapper<'_, 'a> {
    fn statements(&mut self, statements: &[Statement<'a>]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Statement<'a>) {
        match statement {
            Statement::ExpressionStatement(expression) => self.expression(expression),
            Statement::BlockStatement(block) => self.statements(&block.body),
            Statement::LabeledStatement(labeled) if has_undefined_value(&labeled.body) => {
                self.reset(statement.span(), |wrapper| wrapper.inner(innermost(&labeled.body)));
            }
            Statement::LabeledStatement(labeled) => self.statement(&labeled.body),
            _ if has_undefined_value(statement) => {
                self.reset(statement.span(), |wrapper| wrapper.inner(statement))
            }
            _ => {}
        }
    }

    /// Not named after the value: an anonymous function would take the name of what it is assigned to.
    fn expression(&mut self, statement: &ExpressionStatement<'a>) {
        let span = statement.expression.span();
        self.edits.insert(span.start, format!("{} = (0, ", self.value));
        let end = if ends_in_semicolon(self.parsed, statement.span) { ")" } else { ");" };
        self.edits.insert(span.end, end);
    }

    /// The value of such a statement is `undefined` unless a statement inside has one.
    fn reset(&mut self, span: Span, inner: impl FnOnce(&mut Self)) {
        self.edits.insert(span.start, format!("{{{} = void 0; ", self.value));
        inner(self);
        self.edits.insert(span.end, "}");
    }

    fn inner(&mut self, statement: &Statement<'a>) {
        match statement {
            Statement::IfStatement(branch) => {
                self.statement(&branch.consequent);
                branch.alternate.iter().for_each(|alternate| self.statement(alternate));
            }
            Statement::DoWhileStatement(each) => self.statement(&each.body),
            Statement::WhileStatement(each) => self.statement(&each.body),
            Statement::ForStatement(each) => self.statement(&each.body),
            Statement::ForInStatement(each) => self.statement(&each.body),
            Statement::ForOfStatement(each) => self.statement(&each.body),
            Statement::WithStatement(with) => self.statement(&with.body),
            Statement::SwitchStatement(switch) => {
                switch.cases.iter().for_each(|case| self.statements(&case.consequent));
            }
            Statement::TryStatement(attempt) => {
                self.statements(&attempt.block.body);
                // A `finally` does not change the value.
                attempt.handler.iter().for_each(|handler| self.statements(&handler.body.body));
            }
            _ => {}
        }
    }
}

fn innermost<'a, 'b>(statement: &'b Statement<'a>) -> &'b Statement<'a> {
    let mut statement = statement;
    while let Statement::LabeledStatement(labeled) = statement {
        statement = &labeled.body;
    }
    statement
}

fn has_undefined_value(statement: &Statement) -> bool {
    matches!(
        innermost(statement),
        Statement::IfStatement(_)
            | Statement::DoWhileStatement(_)
            | Statement::WhileStatement(_)
            | Statement::ForStatement(_)
            | Statement::ForInStatement(_)
            | Statement::ForOfStatement(_)
            | Statement::WithStatement(_)
            | Statement::SwitchStatement(_)
            | Statement::TryStatement(_)
    )
}

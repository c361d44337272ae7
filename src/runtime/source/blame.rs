//! Which expression of a code an error of the engine is about.
//!
//! The engine says `not a function` and a place near it: the last one it noted before the operation. The tree has the
//! expressions that could have failed there; the innermost one around the place is the likeliest.

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    Argument, AssignmentExpression, AssignmentTarget, AwaitExpression, BindingPattern, CallExpression,
    ComputedMemberExpression, Expression, ForOfStatement, IdentifierReference, NewExpression, SpreadElement,
    StaticMemberExpression, TaggedTemplateExpression, ThrowStatement, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};

use super::nesting::{self, Nesting};
use super::parse::{self, ParsedCode};
use crate::session::positions;

/// Longest code that is looked at again after an error.
const BLAMED_BYTES_MAX: usize = 1 << 20;

/// Expressions that are considered for one error.
const SUSPECTS_MAX: usize = 16;

/// Longest text of an expression in a message.
const EXPRESSION_CHARS_MAX: usize = 80;

/// Letters of the longest keyword before a declaration, and a space.
const KEYWORD_LETTERS_MAX: u32 = 6;

/// What the engine complained about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Complaint<'a> {
    /// Something that was called or constructed.
    NotAFunction,
    /// A property of `undefined` or `null`.
    Property(&'a str),
    /// Something that was iterated.
    NotIterable,
    /// `undefined` or `null` where an object is taken apart.
    NotAnObject,
    /// A name that does not exist.
    Missing(&'a str),
    /// Something thrown that is no error, and so has no place of its own.
    Thrown,
    /// A promise that is never settled.
    Await,
}

/// An expression that may have failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspect {
    /// As in the code, in one line, cut where it is long.
    pub(crate) text: String,
    /// Its names, if it is an identifier or a chain of members: `["kv", "get"]`.
    pub(crate) path: Vec<String>,
    /// The call inside that returns a promise which nothing awaits: its text and its path.
    pub(crate) call: Option<(String, Vec<String>)>,
    /// Where it begins in the code as sent, both from 1.
    pub(crate) place: (u32, u32),
}

/// The expressions that may be meant, likeliest first.
pub(crate) fn blame(code: &str, complaint: Complaint<'_>, place: Option<(u32, u32)>) -> Vec<Suspect> {
    if code.len() > BLAMED_BYTES_MAX || !matches!(nesting::measure(code), Nesting::Bounded) {
        return Vec::new();
    }
    let arena = Allocator::default();
    let Some(parsed) = parse::parse(&arena, code) else { return Vec::new() };
    let at = match place {
        Some(place) => match offset_of(code, place) {
            Some(offset) => u32::try_from(ParsedCode::BASE + offset).ok(),
            None => return Vec::new(),
        },
        None => None,
    };
    let mut finder = Finder { complaint, found: Vec::new(), depth: 0 };
    finder.visit_function_body(parsed.body);
    let mut found: Vec<(Span, Suspect)> = finder
        .found
        .into_iter()
        .filter(|(whole, _)| at.is_none_or(|at| whole.start <= at && at <= whole.end))
        .map(|(whole, expression)| (whole, suspect(&parsed, code, &expression)))
        .collect();
    if at.is_some() {
        // Innermost first.
        found.sort_by_key(|(whole, _)| whole.end - whole.start);
    }
    found.truncate(SUSPECTS_MAX);
    found.into_iter().map(|(_, suspect)| suspect).collect()
}

/// The byte offset of a line and column, both from 1.
fn offset_of(code: &str, (line, column): (u32, u32)) -> Option<usize> {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(breaks) => code.match_indices('\n').nth(breaks as usize)?.0 + 1,
    };
    let offset = start + column.checked_sub(1)? as usize;
    (offset <= code.len()).then_some(offset)
}

/// What is known of an expression once the tree is gone.
struct Found {
    span: Span,
    path: Vec<String>,
    call: Option<(Span, Vec<String>)>,
}

fn suspect(parsed: &ParsedCode<'_>, code: &str, found: &Found) -> Suspect {
    let text = |span: Span| shorten(parsed.slice(span.start, span.end));
    Suspect {
        text: text(found.span),
        path: found.path.clone(),
        call: found.call.as_ref().map(|(span, path)| (text(*span), path.clone())),
        place: positions::locate(code, (found.span.start as usize).saturating_sub(ParsedCode::BASE)),
    }
}

/// One line, not too long.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= EXPRESSION_CHARS_MAX {
        return line;
    }
    let cut: String = line.chars().take(EXPRESSION_CHARS_MAX).collect();
    format!("{cut}…")
}

/// Collects the expressions that a complaint may be about, each with the span in which the engine may see it.
struct Finder<'m> {
    complaint: Complaint<'m>,
    found: Vec<(Span, Found)>,
    /// Functions around the current node.
    depth: usize,
}

impl Finder<'_> {
    fn add(&mut self, whole: Span, expression: &Expression<'_>) {
        let found =
            Found { span: expression.span(), path: path_of(expression), call: unawaited_call(expression) };
        self.found.push((whole, found));
    }

    fn member(&mut self, whole: Span, object: &Expression<'_>, name: Option<&str>) {
        if let Complaint::Property(wanted) = self.complaint
            && name.is_none_or(|name| name == wanted)
        {
            self.add(whole, object);
        }
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        match self.complaint {
            Complaint::NotAFunction => self.add(call.span, &call.callee),
            // `Object.keys(undefined)` and its like.
            Complaint::NotAnObject => {
                if let Some(first) = call.arguments.first().and_then(Argument::as_expression) {
                    self.add(call.span, first);
                }
            }
            Complaint::Thrown if path_of(&call.callee) == ["Promise", "reject"] => {
                if let Some(first) = call.arguments.first().and_then(Argument::as_expression) {
                    self.add(call.span, first);
                }
            }
            _ => {}
        }
        walk::walk_call_expression(self, call);
    }

    fn visit_new_expression(&mut self, new: &NewExpression<'a>) {
        if self.complaint == Complaint::NotAFunction {
            self.add(new.span, &new.callee);
        }
        walk::walk_new_expression(self, new);
    }

    fn visit_tagged_template_expression(&mut self, tagged: &TaggedTemplateExpression<'a>) {
        if self.complaint == Complaint::NotAFunction {
            self.add(tagged.span, &tagged.tag);
        }
        walk::walk_tagged_template_expression(self, tagged);
    }

    fn visit_static_member_expression(&mut self, member: &StaticMemberExpression<'a>) {
        self.member(member.span, &member.object, Some(&member.property.name));
        if let Complaint::Missing(name) = self.complaint
            && let path = path_of_member(member)
            && path.first().is_some_and(|first| first == name)
        {
            let found = Found { span: member.span, path, call: None };
            self.found.push((member.span, found));
        }
        walk::walk_static_member_expression(self, member);
    }

    fn visit_computed_member_expression(&mut self, member: &ComputedMemberExpression<'a>) {
        let literal = match &member.expression {
            Expression::StringLiteral(text) => Some(text.value.to_string()),
            Expression::NumericLiteral(number) => Some(number.value.to_string()),
            _ => None,
        };
        self.member(member.span, &member.object, literal.as_deref());
        walk::walk_computed_member_expression(self, member);
    }

    fn visit_identifier_reference(&mut self, identifier: &IdentifierReference<'a>) {
        if let Complaint::Missing(name) = self.complaint
            && identifier.name == name
        {
            let found = Found { span: identifier.span, path: vec![name.to_owned()], call: None };
            self.found.push((identifier.span, found));
        }
    }

    fn visit_for_of_statement(&mut self, each: &ForOfStatement<'a>) {
        if self.complaint == Complaint::NotIterable
            || self.complaint == Complaint::Property("Symbol.iterator")
        {
            self.add(each.span, &each.right);
        }
        walk::walk_for_of_statement(self, each);
    }

    fn visit_spread_element(&mut self, spread: &SpreadElement<'a>) {
        if self.complaint == Complaint::NotIterable
            || self.complaint == Complaint::Property("Symbol.iterator")
        {
            self.add(spread.span, &spread.argument);
        }
        walk::walk_spread_element(self, spread);
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        if let Some(init) = &declarator.init {
            match (&declarator.id, self.complaint) {
                (BindingPattern::ObjectPattern(_), Complaint::NotAnObject | Complaint::Property(_))
                | (
                    BindingPattern::ArrayPattern(_),
                    Complaint::NotIterable | Complaint::Property("Symbol.iterator"),
                ) => {
                    // The engine notes the place of the statement.
                    let start = declarator.span.start.saturating_sub(KEYWORD_LETTERS_MAX);
                    self.add(Span::new(start, declarator.span.end), init);
                }
                _ => {}
            }
        }
        walk::walk_variable_declarator(self, declarator);
    }

    fn visit_assignment_expression(&mut self, assignment: &AssignmentExpression<'a>) {
        match (&assignment.left, self.complaint) {
            (AssignmentTarget::ObjectAssignmentTarget(_), Complaint::NotAnObject)
            | (AssignmentTarget::ArrayAssignmentTarget(_), Complaint::NotIterable) => {
                self.add(assignment.span, &assignment.right);
            }
            _ => {}
        }
        walk::walk_assignment_expression(self, assignment);
    }

    fn visit_throw_statement(&mut self, throw: &ThrowStatement<'a>) {
        if self.complaint == Complaint::Thrown && !is_caught_again(&throw.argument) {
            let found = Found { span: throw.span, path: Vec::new(), call: None };
            self.found.push((throw.span, found));
        }
        walk::walk_throw_statement(self, throw);
    }

    fn visit_await_expression(&mut self, awaited: &AwaitExpression<'a>) {
        if self.complaint == Complaint::Await && self.depth == 0 {
            let found = Found { span: awaited.span, path: path_of(&awaited.argument), call: None };
            self.found.push((awaited.span, found));
        }
        walk::walk_await_expression(self, awaited);
    }

    fn visit_function(
        &mut self,
        function: &oxc_ast::ast::Function<'a>,
        flags: oxc_syntax::scope::ScopeFlags,
    ) {
        self.depth += 1;
        walk::walk_function(self, function, flags);
        self.depth -= 1;
    }

    fn visit_arrow_function_expression(&mut self, arrow: &oxc_ast::ast::ArrowFunctionExpression<'a>) {
        self.depth += 1;
        walk::walk_arrow_function_expression(self, arrow);
        self.depth -= 1;
    }
}

/// Whether what is thrown is an error, made here or caught before: such a one has a place.
fn is_caught_again(argument: &Expression<'_>) -> bool {
    matches!(argument, Expression::NewExpression(_) | Expression::Identifier(_))
}

/// The names of an identifier or of a chain of members; empty for anything else.
fn path_of(expression: &Expression<'_>) -> Vec<String> {
    match expression.without_parentheses() {
        Expression::Identifier(identifier) => vec![identifier.name.to_string()],
        Expression::StaticMemberExpression(member) => path_of_member(member),
        Expression::TSNonNullExpression(inner) => path_of(&inner.expression),
        Expression::TSAsExpression(inner) => path_of(&inner.expression),
        _ => Vec::new(),
    }
}

fn path_of_member(member: &StaticMemberExpression<'_>) -> Vec<String> {
    let mut path = path_of(&member.object);
    if !path.is_empty() {
        path.push(member.property.name.to_string());
    }
    path
}

/// The call at the start of a chain of members, if nothing awaits it: `kv.get(…)` of `kv.get(…).value`.
fn unawaited_call(expression: &Expression<'_>) -> Option<(Span, Vec<String>)> {
    match expression.without_parentheses() {
        Expression::CallExpression(call) => {
            let path = path_of(&call.callee);
            if path.is_empty() { unawaited_call(&call.callee) } else { Some((call.span, path)) }
        }
        Expression::StaticMemberExpression(member) => unawaited_call(&member.object),
        Expression::ComputedMemberExpression(member) => unawaited_call(&member.object),
        _ => None,
    }
}

/// Where a code may wait: its `await`s outside of functions.
pub(crate) fn awaits(code: &str) -> Vec<(u32, u32)> {
    let mut places: Vec<(u32, u32)> =
        blame(code, Complaint::Await, None).into_iter().map(|suspect| suspect.place).collect();
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests;

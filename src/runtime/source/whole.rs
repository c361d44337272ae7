//! Code as models write it that is not quite a program: an object literal by itself, a `return`
//! at the top level, an import of types alone. Each has one meaning, and gets it.

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    Expression, ImportDeclarationSpecifier, ImportOrExportKind, ModuleDeclaration, ReturnStatement, Statement,
};
use oxc_ast_visit::Visit;
use oxc_parser::Parser;
use oxc_span::{GetSpan, SourceType};

use super::edit::Edits;
use super::nesting;
use super::parse::{self, ParsedCode};

/// The offsets before and behind a code that is one object literal, which a program reads as a block.
pub(super) fn object_literal(code: &str) -> Option<(usize, usize)> {
    let start = code.len() - code.trim_start().len();
    let end = code.trim_end().len();
    let literal = code.get(start..end)?;
    if !literal.starts_with('{') || !literal.ends_with('}') || !nesting::is_small(code) {
        return None;
    }
    let arena = Allocator::default();
    let text = arena.alloc_str(&format!("async()=>({literal}\n)"));
    let parsed = Parser::new(&arena, text, SourceType::script()).parse();
    if parsed.panicked || parsed.diagnostics.has_errors() {
        return None;
    }
    let [Statement::ExpressionStatement(statement)] = parsed.program.body.as_slice() else { return None };
    let Expression::ArrowFunctionExpression(arrow) = &statement.expression else { return None };
    match arrow.body.as_expression()?.without_parentheses() {
        Expression::ObjectExpression(object) if object.span.end as usize + 2 == text.len() => {
            Some((start, end))
        }
        _ => None,
    }
}

/// The statements that return at the top level.
pub(super) fn top_level_returns(statements: &[Statement<'_>]) -> Vec<ReturnPlace> {
    let mut finder = Returns { found: Vec::new() };
    for statement in statements {
        finder.visit_statement(statement);
    }
    finder.found
}

/// A `return` of the top level: its statement and what it returns, as offsets.
pub(super) struct ReturnPlace {
    statement: (u32, u32),
    argument: Option<(u32, u32)>,
}

struct Returns {
    found: Vec<ReturnPlace>,
}

impl<'a> Visit<'a> for Returns {
    fn visit_return_statement(&mut self, statement: &ReturnStatement<'a>) {
        let argument =
            statement.argument.as_ref().map(|argument| (argument.span().start, argument.span().end));
        self.found.push(ReturnPlace { statement: (statement.span.start, statement.span.end), argument });
    }

    // Their returns are their own.
    fn visit_function(&mut self, _: &oxc_ast::ast::Function<'a>, _: oxc_syntax::scope::ScopeFlags) {}
    fn visit_arrow_function_expression(&mut self, _: &oxc_ast::ast::ArrowFunctionExpression<'a>) {}
    fn visit_class(&mut self, _: &oxc_ast::ast::Class<'a>) {}
}

/// Letters of the keyword.
const RETURN: u32 = 6;

/// Makes each `return` of the top level leave a block around the whole code; the value of the block is what it returned.
pub(super) fn leave_block(parsed: &ParsedCode<'_>, returns: &[ReturnPlace], edits: &mut Edits) {
    let (Some(first), Some(last)) = (parsed.body.statements.first(), parsed.body.statements.last()) else {
        return;
    };
    let label = unused_label(parsed.text);
    edits.insert(first.span().start, format!("{label}: {{"));
    for place in returns {
        let (start, end) = place.statement;
        match place.argument {
            Some((_, argument_end)) => {
                edits.replace(start, start + RETURN, "{    (");
                edits.insert(argument_end, ")");
            }
            None => edits.replace(start, start + RETURN, "{void 0"),
        }
        edits.insert(end, format!(";break {label}}}"));
    }
    edits.insert(last.span().end, "}");
}

/// Makes each `return` of the top level return from the function around a code that does not persist, which returns a list.
pub(super) fn return_lists(returns: &[ReturnPlace], edits: &mut Edits) {
    for place in returns {
        match place.argument {
            Some((start, end)) => {
                edits.insert(start, "[(");
                edits.insert(end, ")]");
            }
            None => edits.insert(place.statement.0 + RETURN, " [void 0]"),
        }
    }
}

fn unused_label(text: &str) -> String {
    let mut label = "$return".to_owned();
    while text.contains(&label) {
        label.push('_');
    }
    label
}

/// The code with its imports of types blanked; `None` if it has none, or others too.
pub(super) fn without_type_imports<'a>(arena: &'a Allocator, code: &'a str) -> Option<String> {
    let program =
        if code.contains("import") { parse::parse_module(arena, code, false)? } else { return None };
    let mut text = code.as_bytes().to_vec();
    let mut is_changed = false;
    for statement in &program.body {
        let Some(ModuleDeclaration::ImportDeclaration(import)) = statement.as_module_declaration() else {
            continue;
        };
        let is_type = |specifier: &ImportDeclarationSpecifier<'_>| matches!(specifier, ImportDeclarationSpecifier::ImportSpecifier(one) if one.import_kind == ImportOrExportKind::Type);
        let only_types = import.import_kind == ImportOrExportKind::Type
            || import.specifiers.as_ref().is_some_and(|list| !list.is_empty() && list.iter().all(is_type));
        if !only_types {
            return None;
        }
        let range = import.span.start as usize..import.span.end as usize;
        text.get_mut(range)?.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        is_changed = true;
    }
    if is_changed { String::from_utf8(text).ok() } else { None }
}

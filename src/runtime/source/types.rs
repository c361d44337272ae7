//! Type syntax, blanked out in place. A tree walk that never goes into a type: what it meets of types is replaced
//! by spaces, so every line and column of the rest stays where it was. Where the missing text would let two
//! statements run together, or a line break stand where none may, one of the blanked characters becomes the
//! punctuation that keeps them apart.

use oxc_ast::ast::{
    ArrowFunctionExpression, Class, Expression, FormalParameter, Function, Statement, TSAsExpression,
    TSEnumDeclaration, TSIndexSignature, TSInstantiationExpression, TSInterfaceDeclaration,
    TSNonNullExpression, TSSatisfiesExpression, TSThisParameter, TSTypeAliasDeclaration, TSTypeAnnotation,
    TSTypeAssertion, TSTypeParameterDeclaration, TSTypeParameterInstantiation, VariableDeclaration,
    VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};
use oxc_syntax::scope::ScopeFlags;

use super::edit::Edits;
use super::enums::Enums;
use super::parse::ParsedCode;
use super::{SourceError, classes, trivia};

/// Blanks the types of a code that parsed as TypeScript.
pub(super) fn erase(parsed: &ParsedCode, edits: &mut Edits) -> Result<(), SourceError> {
    let mut eraser = Eraser { parsed, edits, enums: Enums::default(), error: None };
    for statement in &parsed.body.statements {
        if let Statement::TSEnumDeclaration(declaration) = statement {
            eraser.enumeration(declaration, true);
        } else {
            eraser.visit_statement(statement);
        }
    }
    eraser.error.map_or(Ok(()), Err)
}

pub(super) struct Eraser<'b, 'a> {
    pub(super) parsed: &'b ParsedCode<'a>,
    pub(super) edits: &'b mut Edits,
    enums: Enums,
    error: Option<SourceError>,
}

impl<'a> Eraser<'_, 'a> {
    pub(super) fn refuse(&mut self, offset: u32, message: &str) {
        let parsed = self.parsed;
        self.error.get_or_insert_with(|| SourceError::at(parsed, offset, message.to_owned()));
    }

    /// A statement or class member that is types alone. The semicolon keeps its neighbours apart.
    pub(super) fn blank_whole(&mut self, span: Span) {
        self.blank_after_semicolon(span.start, span.end);
    }

    pub(super) fn blank_after_semicolon(&mut self, start: u32, end: u32) {
        let first = self.parsed.slice(start, end).chars().next().map_or(0, char::len_utf8);
        let rest = start.saturating_add(u32::try_from(first).unwrap_or(0));
        self.edits.replace(start, rest, ";");
        self.edits.blank(rest, end);
    }

    /// Blanks up to the end of a mark (`?` or `!`) and of the annotation after it.
    pub(super) fn blank_mark(
        &mut self,
        name_end: u32,
        mark: bool,
        annotation: Option<&TSTypeAnnotation<'a>>,
    ) {
        match annotation {
            Some(annotation) => self.edits.blank(name_end, annotation.span.end),
            None if mark => self.edits.blank(name_end, trivia::skip(self.parsed, name_end) + 1),
            None => {}
        }
    }

    /// `x as T` and its like. The next line may start with a bracket that a type cannot take but a value can.
    fn blank_suffix(&mut self, start: u32, end: u32) {
        let next = trivia::skip(self.parsed, end);
        if matches!(self.parsed.text.as_bytes().get(next as usize), Some(b'(' | b'[' | b'`')) {
            self.blank_after_semicolon(start, end);
        } else {
            self.edits.blank(start, end);
        }
    }

    fn enumeration(&mut self, declaration: &TSEnumDeclaration<'a>, top_level: bool) {
        if declaration.declare {
            self.blank_whole(declaration.span);
            return;
        }
        for member in &declaration.body.members {
            member.initializer.iter().for_each(|value| self.visit_expression(value));
        }
        if let Err(error) = self.enums.rewrite(self.parsed, declaration, top_level, self.edits) {
            self.error.get_or_insert(error);
        }
    }

    /// A line break may stand neither between `async` or `return` and the parameters, nor before the arrow; the
    /// parentheses then move to where the blanked text began or ended.
    fn arrow_parentheses(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        let (open, close) = (arrow.params.span.start, arrow.params.span.end);
        if let Some(parameters) = &arrow.type_parameters
            && trivia::has_line_break(self.parsed, parameters.span.start, open)
        {
            self.edits.replace(parameters.span.start, parameters.span.start + 1, "(");
            self.edits.blank(parameters.span.start + 1, open + 1);
        }
        if let Some(annotation) = &arrow.return_type
            && trivia::has_line_break(self.parsed, close, annotation.span.end)
        {
            let last = annotation.span.end - 1;
            self.edits.blank(close - 1, last);
            self.edits.replace(last, last + 1, ")");
        }
    }
}

impl<'a> Visit<'a> for Eraser<'_, 'a> {
    fn visit_statement(&mut self, statement: &Statement<'a>) {
        match statement {
            Statement::TSExternalModuleDeclaration(_)
            | Statement::TSNamespaceDeclaration(_)
            | Statement::TSGlobalDeclaration(_) => self.blank_whole(statement.span()),
            _ => walk::walk_statement(self, statement),
        }
    }

    fn visit_ts_type_alias_declaration(&mut self, declaration: &TSTypeAliasDeclaration<'a>) {
        self.blank_whole(declaration.span);
    }

    fn visit_ts_interface_declaration(&mut self, declaration: &TSInterfaceDeclaration<'a>) {
        self.blank_whole(declaration.span);
    }

    fn visit_ts_enum_declaration(&mut self, declaration: &TSEnumDeclaration<'a>) {
        self.enumeration(declaration, false);
    }

    fn visit_ts_index_signature(&mut self, signature: &TSIndexSignature<'a>) {
        self.blank_whole(signature.span);
    }

    fn visit_ts_type_annotation(&mut self, annotation: &TSTypeAnnotation<'a>) {
        self.edits.blank_span(annotation.span);
    }

    fn visit_ts_type_parameter_declaration(&mut self, parameters: &TSTypeParameterDeclaration<'a>) {
        self.edits.blank_span(parameters.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, arguments: &TSTypeParameterInstantiation<'a>) {
        self.edits.blank_span(arguments.span);
    }

    fn visit_variable_declaration(&mut self, declaration: &VariableDeclaration<'a>) {
        if declaration.declare {
            self.blank_whole(declaration.span);
        } else {
            walk::walk_variable_declaration(self, declaration);
        }
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        self.visit_binding_pattern(&declarator.id);
        let annotation = declarator.type_annotation.as_deref();
        self.blank_mark(declarator.id.span().end, declarator.definite, annotation);
        declarator.init.iter().for_each(|value| self.visit_expression(value));
    }

    fn visit_formal_parameter(&mut self, parameter: &FormalParameter<'a>) {
        self.visit_binding_pattern(&parameter.pattern);
        let name = parameter.pattern.span();
        self.edits.blank(parameter.span.start, name.start);
        self.blank_mark(name.end, parameter.optional, parameter.type_annotation.as_deref());
        parameter.initializer.iter().for_each(|value| self.visit_expression(value));
    }

    fn visit_ts_this_parameter(&mut self, parameter: &TSThisParameter<'a>) {
        let next = trivia::skip(self.parsed, parameter.span.end);
        let comma = self.parsed.slice(next, next + 1) == ",";
        self.edits.blank(parameter.span.start, if comma { next + 1 } else { parameter.span.end });
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        if function.body.is_none() || function.declare {
            self.blank_whole(function.span);
        } else {
            walk::walk_function(self, function, flags);
        }
    }

    fn visit_arrow_function_expression(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        self.arrow_parentheses(arrow);
        walk::walk_arrow_function_expression(self, arrow);
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        if class.declare {
            self.blank_whole(class.span);
        } else {
            classes::erase(self, class);
        }
    }

    fn visit_ts_as_expression(&mut self, expression: &TSAsExpression<'a>) {
        self.visit_expression(&expression.expression);
        self.blank_suffix(expression.expression.span().end, expression.span.end);
    }

    fn visit_ts_satisfies_expression(&mut self, expression: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&expression.expression);
        self.blank_suffix(expression.expression.span().end, expression.span.end);
    }

    fn visit_ts_non_null_expression(&mut self, expression: &TSNonNullExpression<'a>) {
        self.visit_expression(&expression.expression);
        self.edits.blank(expression.expression.span().end, expression.span.end);
    }

    fn visit_ts_instantiation_expression(&mut self, expression: &TSInstantiationExpression<'a>) {
        self.visit_expression(&expression.expression);
        self.blank_suffix(expression.expression.span().end, expression.span.end);
    }

    /// Parenthesized, for without its type `<T>{}` would read as a block.
    fn visit_ts_type_assertion(&mut self, assertion: &TSTypeAssertion<'a>) {
        let value: &Expression = &assertion.expression;
        self.edits.replace(assertion.span.start, assertion.span.start + 1, "(");
        self.edits.blank(assertion.span.start + 1, value.span().start);
        self.visit_expression(value);
        self.edits.insert(value.span().end, ")");
    }
}

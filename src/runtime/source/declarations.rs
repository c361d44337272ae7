//! Top-level declarations that persist. A global `let`, `const` or `class` could not be declared again by a later
//! eval, so each becomes a `var` of the same name: a property of the global object. What the native form would
//! have refused inside one eval is refused here.

use std::collections::HashMap;

use oxc_ast::ast::{
    BindingIdentifier, CatchParameter, Class, Declaration, Expression, Function, Statement,
    VariableDeclaration, VariableDeclarationKind,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::Span;

use super::edit::Edits;
use super::parse::ParsedCode;
use super::{Options, SourceError};

/// Global properties that cannot be redefined, so neither can a lexical declaration take their name.
const GLOBALS_FIXED: [&str; 3] = ["undefined", "NaN", "Infinity"];

/// The names that the top level declares.
pub(super) fn names(parsed: &ParsedCode) -> Vec<String> {
    let mut names = Vec::new();
    for statement in &parsed.body.statements {
        match statement {
            Statement::VariableDeclaration(declaration) => {
                for declarator in &declaration.declarations {
                    let bound = declarator.id.get_binding_identifiers();
                    names.extend(bound.iter().map(|identifier| identifier.name.to_string()));
                }
            }
            Statement::ClassDeclaration(class) => names.extend(class.id.iter().map(|id| id.name.to_string())),
            Statement::FunctionDeclaration(function) => {
                names.extend(function.id.iter().map(|id| id.name.to_string()));
            }
            _ => {}
        }
    }
    names
}

/// Rewrites the declarations of a code that persists.
pub(super) fn persist(parsed: &ParsedCode, options: &Options, edits: &mut Edits) {
    for statement in &parsed.body.statements {
        match statement {
            Statement::VariableDeclaration(declaration) if !declaration.declare => {
                variables_to_var(parsed, declaration, edits);
            }
            Statement::ClassDeclaration(class) if !class.declare => class_to_var(class, edits),
            Statement::FunctionDeclaration(function) => function_to_var(function, options, edits),
            _ => {}
        }
    }
}

fn variables_to_var(parsed: &ParsedCode, declaration: &VariableDeclaration, edits: &mut Edits) {
    let start = declaration.span.start;
    match declaration.kind {
        VariableDeclarationKind::Let => edits.replace(start, start + 3, "var"),
        VariableDeclarationKind::Const => edits.replace(start, start + 5, "var  "),
        VariableDeclarationKind::Var
        | VariableDeclarationKind::Using
        | VariableDeclarationKind::AwaitUsing => return,
    }
    let ended = ends_in_semicolon(parsed, declaration.span);
    let last = declaration.declarations.len().saturating_sub(1);
    for (index, declarator) in declaration.declarations.iter().enumerate() {
        if declarator.init.is_none() {
            // A `var` alone would keep the value of an earlier eval. The semicolon keeps a next line that
            // starts with a bracket from going on with `0`.
            let text = if index == last && !ended { " = void 0;" } else { " = void 0" };
            edits.insert(declarator.span.end, text);
        }
    }
}

/// The semicolon keeps a next line that starts with a bracket from calling the class.
fn class_to_var(class: &Class, edits: &mut Edits) {
    if let Some(id) = &class.id {
        edits.insert(class.span.start, format!("var {} = ", id.name));
        edits.insert(class.span.end, ";");
    }
}

/// A binding stands on the global object as an accessor, which a function declaration may not replace.
fn function_to_var(function: &Function, options: &Options, edits: &mut Edits) {
    let Some(id) = function.id.as_ref().filter(|_| function.body.is_some()) else {
        return;
    };
    if (options.is_binding)(&id.name) {
        edits.insert(function.span.start, format!("var {} = ", id.name));
        edits.insert(function.span.end, ";");
    }
}

pub(super) fn ends_in_semicolon(parsed: &ParsedCode, span: Span) -> bool {
    parsed.slice(span.start, span.end).ends_with(';')
}

/// The `const` names of the top level, which the same eval may not assign.
pub(super) fn consts<'a, 'b>(parsed: &'b ParsedCode<'a>) -> Vec<&'b BindingIdentifier<'a>> {
    let mut consts = Vec::new();
    for statement in &parsed.body.statements {
        if let Statement::VariableDeclaration(declaration) = statement
            && declaration.kind == VariableDeclarationKind::Const
            && !declaration.declare
        {
            for declarator in &declaration.declarations {
                consts.extend(declarator.id.get_binding_identifiers());
            }
        }
    }
    consts
}

/// Refuses what the native declarations would have refused.
pub(super) fn check(parsed: &ParsedCode) -> Result<(), SourceError> {
    let mut declared = DeclarationCheck { parsed, names: HashMap::new(), error: None };
    for statement in &parsed.body.statements {
        declared.top_level(statement);
    }
    declared.error.map_or(Ok(()), Err)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lexical,
    Enum,
    Var,
}

struct DeclarationCheck<'b, 'a> {
    parsed: &'b ParsedCode<'a>,
    names: HashMap<&'a str, Kind>,
    error: Option<SourceError>,
}

impl<'a> DeclarationCheck<'_, 'a> {
    fn top_level(&mut self, statement: &Statement<'a>) {
        match statement {
            Statement::VariableDeclaration(declaration) if declaration.declare => {}
            Statement::VariableDeclaration(declaration)
                if declaration.kind != VariableDeclarationKind::Var =>
            {
                for declarator in &declaration.declarations {
                    for id in declarator.id.get_binding_identifiers() {
                        self.declare(id, Kind::Lexical);
                    }
                }
            }
            Statement::ClassDeclaration(class) if !class.declare => {
                class.id.iter().for_each(|id| self.declare(id, Kind::Lexical));
            }
            Statement::FunctionDeclaration(function) if function.body.is_some() => {
                function.id.iter().for_each(|id| self.declare(id, Kind::Var));
            }
            Statement::TSEnumDeclaration(declaration) if !declaration.declare => {
                self.declare(&declaration.id, Kind::Enum);
            }
            _ => self.visit_statement(statement),
        }
    }

    fn declare(&mut self, id: &BindingIdentifier<'a>, kind: Kind) {
        let name = id.name.as_str();
        let fixed = kind != Kind::Var && GLOBALS_FIXED.contains(&name);
        let earlier = self.names.insert(name, kind);
        let taken = earlier.is_some_and(|earlier| earlier != kind || kind == Kind::Lexical);
        let message = if taken || fixed {
            format!("Identifier '{name}' has already been declared")
        } else if name == "let" && kind == Kind::Lexical {
            "'let' is not a valid lexical identifier".to_owned()
        } else {
            return;
        };
        self.error.get_or_insert_with(|| SourceError::at(self.parsed, id.span.start, message));
    }
}

/// Collects the `var` names that are hoisted out of nested statements.
impl<'a> Visit<'a> for DeclarationCheck<'_, 'a> {
    fn visit_variable_declaration(&mut self, declaration: &VariableDeclaration<'a>) {
        if declaration.kind == VariableDeclarationKind::Var && !declaration.declare {
            walk::walk_variable_declaration(self, declaration);
        }
    }

    fn visit_binding_identifier(&mut self, id: &BindingIdentifier<'a>) {
        self.declare(id, Kind::Var);
    }

    fn visit_catch_parameter(&mut self, _: &CatchParameter<'a>) {}

    fn visit_declaration(&mut self, declaration: &Declaration<'a>) {
        if let Declaration::VariableDeclaration(variables) = declaration {
            self.visit_variable_declaration(variables);
        }
    }

    fn visit_expression(&mut self, _: &Expression<'a>) {}
}

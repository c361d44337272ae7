//! The type syntax of classes: modifiers, abstract and declared members, overloads, `implements`, and parameter
//! properties, which are the one part of it that does something: they become assignments in the constructor.

use oxc_ast::ast::{
    AccessorProperty, Class, ClassElement, Expression, MethodDefinition, MethodDefinitionKind,
    MethodDefinitionType, Program, PropertyDefinition, PropertyDefinitionType, PropertyKey, Statement,
    TSTypeAnnotation,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};
use oxc_syntax::scope::ScopeFlags;

use super::trivia;
use super::types::Eraser;

/// Words before a member's name, or before `class`, that only the type checker reads.
const MODIFIERS: [&str; 7] =
    ["public", "private", "protected", "readonly", "override", "abstract", "declare"];

pub(super) fn erase<'a>(eraser: &mut Eraser<'_, 'a>, class: &Class<'a>) {
    let mut head_end = class.id.as_ref().map_or(class.span.start, |id| id.span.end);
    if class.r#abstract {
        let name = class.id.as_ref().map_or(class.body.span.start, |id| id.span.start);
        blank_modifiers(eraser, class.span.start, name);
    }
    if let Some(parameters) = &class.type_parameters {
        eraser.edits.blank_span(parameters.span);
        head_end = parameters.span.end;
    }
    if let Some(heritage) = &class.heritage {
        eraser.visit_expression(&heritage.expression);
        head_end = heritage.expression.span().end;
        if let Some(arguments) = &heritage.type_arguments {
            eraser.edits.blank_span(arguments.span);
            head_end = arguments.span.end;
        }
    }
    if let Some(last) = class.implements.last() {
        let start = implements_start(eraser, class, head_end);
        eraser.edits.blank(start, last.span.end);
    }
    for element in &class.body.body {
        member(eraser, element, class.heritage.is_some());
    }
}

/// Whether any class member of a program has a modifier that JavaScript does not know.
pub(super) fn has_modifiers(text: &str, program: &Program) -> bool {
    let mut finder = ModifierFinder { found: false };
    if MODIFIERS.iter().any(|word| text.contains(word)) {
        finder.visit_program(program);
    }
    finder.found
}

struct ModifierFinder {
    found: bool,
}

impl<'a> Visit<'a> for ModifierFinder {
    fn visit_method_definition(&mut self, method: &MethodDefinition<'a>) {
        self.found |= method.accessibility.is_some()
            || method.r#override
            || method.optional
            || method.r#type == MethodDefinitionType::TSAbstractMethodDefinition;
        walk::walk_method_definition(self, method);
    }

    fn visit_property_definition(&mut self, property: &PropertyDefinition<'a>) {
        self.found |= property.accessibility.is_some()
            || property.r#override
            || property.readonly
            || property.declare
            || property.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition;
        walk::walk_property_definition(self, property);
    }
}

fn implements_start(eraser: &Eraser<'_, '_>, class: &Class<'_>, head_end: u32) -> u32 {
    trivia::words(eraser.parsed, head_end, class.body.span.start)
        .into_iter()
        .find(|(_, word)| *word == "implements")
        .map_or(head_end, |(start, _)| start)
}

fn member<'a>(eraser: &mut Eraser<'_, 'a>, element: &ClassElement<'a>, derived: bool) {
    match element {
        ClassElement::MethodDefinition(method) => self::method(eraser, method, derived),
        ClassElement::PropertyDefinition(property) => self::property(eraser, property),
        ClassElement::AccessorProperty(accessor) => self::accessor(eraser, accessor),
        ClassElement::StaticBlock(block) => eraser.visit_static_block(block),
        ClassElement::TSIndexSignature(signature) => eraser.blank_whole(signature.span),
    }
}

fn method<'a>(eraser: &mut Eraser<'_, 'a>, method: &MethodDefinition<'a>, derived: bool) {
    let is_abstract = method.r#type == MethodDefinitionType::TSAbstractMethodDefinition;
    if is_abstract || method.value.body.is_none() {
        eraser.blank_whole(method.span);
        return;
    }
    let name_end = name(eraser, method.span, &method.key, method.computed);
    eraser.blank_mark(name_end, method.optional, None);
    if method.kind == MethodDefinitionKind::Constructor {
        parameter_properties(eraser, method, derived);
    }
    eraser.visit_function(&method.value, ScopeFlags::Function);
}

fn property<'a>(eraser: &mut Eraser<'_, 'a>, property: &PropertyDefinition<'a>) {
    if property.declare || property.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition {
        eraser.blank_whole(property.span);
        return;
    }
    let name_end = name(eraser, property.span, &property.key, property.computed);
    let mark = property.optional || property.definite;
    let annotation = property.type_annotation.as_deref();
    field(eraser, property.span, name_end, mark, annotation, property.value.as_ref());
}

fn accessor<'a>(eraser: &mut Eraser<'_, 'a>, accessor: &AccessorProperty<'a>) {
    let name_end = name(eraser, accessor.span, &accessor.key, accessor.computed);
    let annotation = accessor.type_annotation.as_deref();
    field(eraser, accessor.span, name_end, accessor.definite, annotation, accessor.value.as_ref());
}

/// What follows the name of a field. Without a value, the annotation was what ended it.
fn field<'a>(
    eraser: &mut Eraser<'_, 'a>,
    span: Span,
    name_end: u32,
    mark: bool,
    annotation: Option<&TSTypeAnnotation<'a>>,
    value: Option<&Expression<'a>>,
) {
    let ended = eraser.parsed.slice(span.start, span.end).ends_with(';');
    match (value, annotation) {
        (None, Some(annotation)) if !ended => eraser.blank_after_semicolon(name_end, annotation.span.end),
        _ => eraser.blank_mark(name_end, mark, annotation),
    }
    value.into_iter().for_each(|value| eraser.visit_expression(value));
}

/// Blanks the modifiers before a member's name. Returns the offset at which the name ends.
fn name<'a>(eraser: &mut Eraser<'_, 'a>, member: Span, key: &PropertyKey<'a>, computed: bool) -> u32 {
    eraser.visit_property_key(key);
    let key = key.span();
    blank_modifiers(eraser, member.start, key.start);
    if computed { trivia::skip(eraser.parsed, key.end) + 1 } else { key.end }
}

/// A modifier that starts its member becomes a semicolon: without it, the field above could go on with `[` or `*`.
fn blank_modifiers(eraser: &mut Eraser<'_, '_>, start: u32, end: u32) {
    let mut kept = false;
    for (offset, word) in trivia::words(eraser.parsed, start, end) {
        let word_end = offset.saturating_add(u32::try_from(word.len()).unwrap_or(0));
        if !MODIFIERS.contains(&word) {
            kept = true;
        } else if kept || word == "abstract" {
            eraser.edits.blank(offset, word_end);
        } else {
            kept = true;
            eraser.blank_after_semicolon(offset, word_end);
        }
    }
}

fn parameter_properties<'a>(eraser: &mut Eraser<'_, 'a>, constructor: &MethodDefinition<'a>, derived: bool) {
    let Some(body) = &constructor.value.body else {
        return;
    };
    let mut assignments = String::new();
    for parameter in &constructor.value.params.items {
        if parameter.has_modifier()
            && let Some(id) = parameter.pattern.get_binding_identifier()
        {
            assignments.push_str(&format!("this.{0} = {0};", id.name));
        }
    }
    if assignments.is_empty() {
        return;
    }
    let start = if derived {
        body.statements.iter().find(|statement| is_super_call(statement)).map(|call| call.span().end)
    } else {
        Some(body.directives.last().map_or(body.span.start + 1, |directive| directive.span.end))
    };
    match start {
        // The statement before may have been ended by the line break alone.
        Some(start) => eraser.edits.insert(start, format!(";{assignments}")),
        None => eraser.refuse(
            constructor.span.start,
            "a constructor with parameter properties must call super(...) as a statement of its own",
        ),
    }
}

fn is_super_call(statement: &Statement) -> bool {
    matches!(statement, Statement::ExpressionStatement(expression)
        if matches!(&expression.expression, Expression::CallExpression(call)
            if matches!(call.callee, Expression::Super(_))))
}

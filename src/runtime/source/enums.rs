//! `enum`, the one TypeScript declaration that runs: it becomes a variable that holds an object built in an arrow
//! function, one assignment a member. Initializers stay where they were; what stands between them is replaced,
//! with its line breaks kept. A member without one is the member before it plus one, added at run time.

use std::collections::{HashMap, HashSet};

use oxc_ast::ast::{
    BinaryOperator, Expression, IdentifierReference, TSEnumDeclaration, TSEnumMember, TSEnumMemberName,
    TSType,
};
use oxc_ast_visit::Visit;
use oxc_span::GetSpan;

use super::SourceError;
use super::edit::Edits;
use super::parse::ParsedCode;

/// The enums seen so far at the top level: one declared twice adds to the first.
#[derive(Default)]
pub(super) struct Enums {
    top_level: HashMap<String, Members>,
}

/// Members known so far, and which of them are strings (those have no reverse mapping).
#[derive(Default)]
struct Members {
    all: HashSet<String>,
    strings: HashSet<String>,
}

impl Enums {
    pub(super) fn rewrite(
        &mut self,
        parsed: &ParsedCode,
        declaration: &TSEnumDeclaration,
        top_level: bool,
        edits: &mut Edits,
    ) -> Result<(), SourceError> {
        let name = declaration.id.name.as_str();
        let known = if top_level { self.top_level.remove(name) } else { None };
        let (keyword, initial) = match (top_level, known.is_some()) {
            (true, true) => ("var", name),
            (true, false) => ("var", "{}"),
            (false, _) => ("let", "{}"),
        };
        let mut members = known.unwrap_or_default();
        let body = declaration.body.span;
        let breaks = line_breaks(parsed, declaration.span.start, body.start);
        let head = format!("{keyword} {name} = (({name}) => {{{breaks}");
        edits.replace(declaration.span.start, body.start + 1, head);
        let mut cursor = body.start + 1;
        let mut previous: Option<String> = None;
        for member in &declaration.body.members {
            edits.blank(cursor, member.span.start);
            let key = member_name(&member.id);
            members.write(parsed, name, &key, previous.as_deref(), member, edits)?;
            previous = Some(key);
            cursor = member.span.end;
        }
        edits.blank(cursor, body.end - 1);
        edits.replace(body.end - 1, body.end, format!("return {name}}})({initial});"));
        if top_level {
            self.top_level.insert(name.to_owned(), members);
        }
        Ok(())
    }
}

impl Members {
    fn write(
        &mut self,
        parsed: &ParsedCode,
        object: &str,
        key: &str,
        previous: Option<&str>,
        member: &TSEnumMember,
        edits: &mut Edits,
    ) -> Result<(), SourceError> {
        let quoted = quote(key);
        let span = member.span;
        if edits.is_overgrown() {
            return Err(SourceError::at(parsed, span.start, "the enum is too large".to_owned()));
        }
        let Some(value) = &member.initializer else {
            let value = match previous {
                Some(previous) if self.strings.contains(previous) => {
                    let message = "an enum member after a string member must have an initializer";
                    return Err(SourceError::at(parsed, span.start, message.to_owned()));
                }
                Some(previous) => format!("{object}[{}] + 1", quote(previous)),
                None => "0".to_owned(),
            };
            let breaks = line_breaks(parsed, span.start, span.end);
            let text = format!("{object}[{object}[{quoted}] = {value}] = {quoted};{breaks}");
            edits.replace(span.start, span.end, text);
            self.all.insert(key.to_owned());
            self.strings.remove(key);
            return Ok(());
        };
        self.qualify(object, value, edits);
        let breaks = line_breaks(parsed, span.start, value.span().start);
        if self.is_string(object, value) {
            edits.replace(span.start, value.span().start, format!("{object}[{quoted}] = ({breaks}"));
            edits.insert(value.span().end, ");");
            self.strings.insert(key.to_owned());
        } else {
            edits.replace(span.start, value.span().start, format!("{object}[{object}[{quoted}] = ({breaks}"));
            edits.insert(value.span().end, format!(")] = {quoted};"));
            self.strings.remove(key);
        }
        self.all.insert(key.to_owned());
        Ok(())
    }

    /// Inside an initializer an earlier member goes by its bare name.
    fn qualify(&self, object: &str, value: &Expression, edits: &mut Edits) {
        MemberReferences { members: self, object, edits }.visit_expression(value);
    }

    fn is_string(&self, object: &str, value: &Expression) -> bool {
        let mut value = value;
        loop {
            value = match value {
                Expression::StringLiteral(_) | Expression::TemplateLiteral(_) => return true,
                Expression::Identifier(id) => return self.strings.contains(id.name.as_str()),
                Expression::StaticMemberExpression(member) => {
                    return member.object.is_specific_id(object)
                        && self.strings.contains(member.property.name.as_str());
                }
                Expression::BinaryExpression(sum) if sum.operator == BinaryOperator::Addition => {
                    if self.is_string(object, &sum.right) {
                        return true;
                    }
                    &sum.left
                }
                Expression::ParenthesizedExpression(inner) => &inner.expression,
                _ => return false,
            }
        }
    }
}

struct MemberReferences<'b> {
    members: &'b Members,
    object: &'b str,
    edits: &'b mut Edits,
}

impl<'a> Visit<'a> for MemberReferences<'_> {
    fn visit_identifier_reference(&mut self, id: &IdentifierReference<'a>) {
        if self.members.all.contains(id.name.as_str()) {
            self.edits.insert(id.span.start, format!("{}.", self.object));
        }
    }

    fn visit_ts_type(&mut self, _: &TSType<'a>) {}
}

fn member_name(name: &TSEnumMemberName) -> String {
    match name {
        TSEnumMemberName::Identifier(id) => id.name.to_string(),
        TSEnumMemberName::String(text) | TSEnumMemberName::ComputedString(text) => text.value.to_string(),
        TSEnumMemberName::ComputedTemplateString(template) => {
            let cooked = template.quasis.first().and_then(|quasi| quasi.value.cooked.as_ref());
            cooked.map(ToString::to_string).unwrap_or_default()
        }
    }
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn line_breaks(parsed: &ParsedCode, start: u32, end: u32) -> String {
    parsed.slice(start, end).chars().filter(|character| *character == '\n').collect()
}

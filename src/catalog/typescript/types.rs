//! From a JSON Schema to the TypeScript type of the values that it allows, as near as TypeScript comes.
//!
//! A schema is a conjunction of keywords, so its type is an intersection of what each says; keywords that TypeScript
//! has no word for (`not`, `if`, ranges) say nothing. A schema without `type` that speaks of properties or items is taken to
//! mean an object or an array: strictly it allows everything else as well, but that is hardly ever meant.

use serde_json::{Map, Value};

use super::empty::allows_empty;
use super::form::{Form, Type};
use super::named::{self, Named, Pending};
use super::text::{doc_comment, indented, literal, property_name};

/// Deepest type that is spelled out; below it, types are `unknown`.
/// Readers do not go further, and every level is indented.
pub(super) const TYPE_DEPTH_MAX: usize = 24;

/// Most members of an enum that are listed; a longer one is written as the types of its members.
pub(super) const ENUM_MEMBERS_MAX: usize = 200;

/// Longest object type on one line.
const LINE_CHARS_MAX: usize = 80;

/// One schema document of a binding, with the name that its root would get.
pub(super) struct Document<'a> {
    schema: Option<&'a Value>,
    label: String,
}

impl<'a> Document<'a> {
    pub(super) fn new(schema: Option<&'a Value>, label: String) -> Self {
        Self { schema, label }
    }

    pub(super) fn type_text(&self, types: &mut Types<'a>) -> String {
        let Some(root) = self.schema else {
            return "unknown".to_owned();
        };
        types.writer(root, &self.label, false).type_of(root, 0).text
    }

    /// `input: T`, or `input?: T` when a call without argument, which sends `{}`, is fine.
    pub(super) fn parameter(&self, types: &mut Types<'a>) -> String {
        let optional = self.schema.is_none_or(|root| allows_empty(root, root));
        format!("input{}: {}", if optional { "?" } else { "" }, self.type_text(types))
    }
}

/// All types of one text.
pub(super) struct Types<'a> {
    namespace: String,
    named: Named<'a>,
    /// The declarations of named types that are written, by name.
    bodies: Vec<(String, String)>,
}

impl<'a> Types<'a> {
    pub(super) fn new(namespace: String) -> Self {
        Self { namespace, named: Named::default(), bodies: Vec::new() }
    }

    fn writer<'t>(&'t mut self, root: &'a Value, label: &'t str, inside: bool) -> Writer<'t, 'a> {
        Writer { types: self, root, label, inside }
    }

    /// Writes a named type that was referred to; `false` when all are written.
    pub(super) fn write_next_named(&mut self) -> bool {
        let Some(pending) = self.named.next_pending() else {
            return false;
        };
        let body = self.body(&pending);
        self.bodies.push((pending.name, body));
        true
    }

    /// The namespace of the named types that were written, if there are any.
    pub(super) fn take_namespace(&mut self) -> Option<String> {
        self.bodies.sort();
        let bodies: Vec<String> = self.bodies.drain(..).map(|(_, body)| body).collect();
        if bodies.is_empty() {
            return None;
        }
        Some(format!("declare namespace {} {{\n{}\n}}", self.namespace, indented(&bodies.join("\n"))))
    }

    fn body(&mut self, pending: &Pending<'a>) -> String {
        let comment =
            doc_comment(pending.schema.get("description").and_then(Value::as_str).unwrap_or_default());
        let name = &pending.name;
        if named::contains_itself(pending.root, pending.schema) {
            return format!("{comment}type {name} = unknown;");
        }
        let body = self.writer(pending.root, &pending.label, true).type_of(pending.schema, 0);
        match body.form {
            Form::Object => format!("{comment}interface {name} {}", body.text),
            _ => format!("{comment}type {name} = {};", body.text),
        }
    }
}

struct Writer<'t, 'a> {
    types: &'t mut Types<'a>,
    root: &'a Value,
    label: &'t str,
    /// Inside the namespace of the named types, where they need no qualifier.
    inside: bool,
}

impl<'a> Writer<'_, 'a> {
    fn type_of(&mut self, schema: &'a Value, depth: usize) -> Type {
        match schema {
            Value::Bool(false) => Type::new("never", Form::Never),
            Value::Object(fields) if depth < TYPE_DEPTH_MAX => self.type_of_fields(fields, depth + 1),
            _ => Type::unknown(),
        }
    }

    fn type_of_fields(&mut self, fields: &'a Map<String, Value>, depth: usize) -> Type {
        if is_function_place(fields) {
            return self.function(fields.get("x-fn"), depth);
        }
        if let Some(class) = tagged_class(fields) {
            return Type::atom(class);
        }
        let mut parts = Vec::new();
        for keyword in ["$ref", "$dynamicRef"] {
            parts.extend(
                fields.get(keyword).and_then(Value::as_str).map(|reference| self.reference(reference)),
            );
        }
        for branch in list(fields, "allOf") {
            parts.push(self.type_of(branch, depth));
        }
        for keyword in ["anyOf", "oneOf"] {
            if fields.get(keyword).is_some_and(Value::is_array) {
                let branches: Vec<Type> =
                    list(fields, keyword).map(|branch| self.type_of(branch, depth)).collect();
                parts.push(Type::union(branches));
            }
        }
        let says_more = parts.iter().any(|part| part.form != Form::Unknown);
        parts.insert(0, self.own_type(fields, depth, says_more));
        Type::intersection(parts)
    }

    /// What the schema says without its references and alternatives.
    fn own_type(&mut self, fields: &'a Map<String, Value>, depth: usize, says_more: bool) -> Type {
        if let Some(constant) = fields.get("const") {
            return Type::atom(literal(constant));
        }
        if let Some(Value::Array(members)) = fields.get("enum") {
            return enum_type(members);
        }
        let types: Vec<&str> = match fields.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ if fields.contains_key("properties") => vec!["object"],
            _ if fields.contains_key("items") || fields.contains_key("prefixItems") => vec!["array"],
            _ => return Type::unknown(),
        };
        // `type: object` beside a reference adds nothing but an index signature that would spoil it.
        if says_more && types == ["object"] && !has_members(fields) {
            return Type::unknown();
        }
        let written: Vec<Type> = types.into_iter().map(|name| self.typed(name, fields, depth)).collect();
        Type::union(written)
    }

    fn typed(&mut self, name: &str, fields: &'a Map<String, Value>, depth: usize) -> Type {
        match name {
            "string" | "boolean" | "null" => Type::atom(name),
            "number" | "integer" => Type::atom("number"),
            "array" => self.array(fields, depth),
            "object" => self.object(fields, depth),
            _ => Type::unknown(),
        }
    }

    fn reference(&mut self, reference: &str) -> Type {
        match self.types.named.name_of(self.root, self.label, reference) {
            Some(name) if self.inside => Type::atom(name),
            Some(name) => Type::atom(format!("{}.{name}", self.types.namespace)),
            None => Type::unknown(),
        }
    }

    /// Without a schema for the output the function may be a plain one or an async one.
    fn function(&mut self, schemas: Option<&'a Value>, depth: usize) -> Type {
        let schema = |field: &str| schemas.and_then(|schemas| schemas.get(field));
        let (input, output) = (schema("input"), schema("output"));
        let optional = input.is_none_or(|input| allows_empty(self.root, input));
        let input = input.map_or_else(Type::unknown, |input| self.type_of(input, depth)).text;
        let output = match output {
            Some(output) => format!("Promise<{}>", self.type_of(output, depth).text),
            None => "unknown".to_owned(),
        };
        Type::new(format!("(input{}: {input}) => {output}", if optional { "?" } else { "" }), Form::Function)
    }

    fn array(&mut self, fields: &'a Map<String, Value>, depth: usize) -> Type {
        let rest = fields.get("items").map_or_else(Type::unknown, |items| self.type_of(items, depth));
        let element = |of: Type| of.in_parentheses_if(&[Form::Union, Form::Intersection, Form::Function]);
        let prefix: Vec<&'a Value> = list(fields, "prefixItems").collect();
        if prefix.is_empty() {
            return match rest.form {
                Form::Never => Type::atom("[]"),
                _ => Type::atom(format!("{}[]", element(rest))),
            };
        }
        let required = fields.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let mut members: Vec<String> = Vec::new();
        for (position, item) in (0_u64..).zip(prefix) {
            let text = element(self.type_of(item, depth));
            members.push(if position < required { text } else { format!("{text}?") });
        }
        if rest.form != Form::Never {
            members.push(format!("...{}[]", element(rest)));
        }
        Type::atom(format!("[{}]", members.join(", ")))
    }

    fn object(&mut self, fields: &'a Map<String, Value>, depth: usize) -> Type {
        let required: Vec<&str> = list(fields, "required").filter_map(Value::as_str).collect();
        let mut members = Vec::new();
        let mut value_types = Vec::new();
        let properties = fields.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            let optional = !required.contains(&name.as_str());
            let of = self.type_of(schema, depth);
            members.push(member(name, optional, &of.text, &property_comment(schema)));
            value_types.push(of);
            value_types.extend(optional.then(|| Type::atom("undefined")));
        }
        for name in
            required.into_iter().filter(|name| properties.is_none_or(|known| !known.contains_key(*name)))
        {
            members.push(member(name, false, "unknown", ""));
            value_types.push(Type::unknown());
        }
        match self.index_type(fields, !members.is_empty(), value_types, depth) {
            Some(of) if of.form == Form::Never => return Type::atom("Record<string, never>"),
            Some(of) => members.push(format!("[key: string]: {};", of.text)),
            None => {}
        }
        Type::new(braced(&members), Form::Object)
    }

    /// An index signature has to admit what the named properties are, so it is widened by them.
    fn index_type(
        &mut self,
        fields: &'a Map<String, Value>,
        has_members: bool,
        value_types: Vec<Type>,
        depth: usize,
    ) -> Option<Type> {
        let patterns = fields.get("patternProperties").and_then(Value::as_object);
        let mut others: Vec<Type> = Vec::new();
        for schema in patterns.into_iter().flatten().map(|(_, schema)| schema) {
            others.push(self.type_of(schema, depth));
        }
        match fields.get("additionalProperties") {
            Some(schema) => others.push(self.type_of(schema, depth)),
            // Open by default, but a model that reads so invents properties.
            None if has_members && others.is_empty() => return None,
            None => others.push(Type::unknown()),
        }
        let others = Type::union(others);
        match (others.form, has_members) {
            (Form::Never, true) => None,
            (_, false) => Some(others),
            (_, true) => Some(Type::union(value_types.into_iter().chain([others]))),
        }
    }
}

/// A place for a function is an object with `$fn`; `x-fn` says what the function takes and returns.
fn is_function_place(fields: &Map<String, Value>) -> bool {
    fields.get("x-fn").is_some_and(Value::is_object)
        || list(fields, "required").any(|name| name.as_str() == Some("$fn"))
}

/// The type in a script of a value whose wire form is a tag alone.
fn tagged_class(fields: &Map<String, Value>) -> Option<&'static str> {
    let mut required = list(fields, "required");
    match (required.next()?.as_str()?, required.next()) {
        ("$date", None) => Some("Date"),
        ("$bytes", None) => Some("Uint8Array"),
        ("$bigint", None) => Some("bigint"),
        _ => None,
    }
}

fn has_members(fields: &Map<String, Value>) -> bool {
    ["properties", "required", "patternProperties", "additionalProperties"]
        .iter()
        .any(|key| fields.contains_key(*key))
}

/// The members of a keyword that is a list; none if it is anything else.
pub(super) fn list<'a>(
    fields: &'a Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    fields.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

fn enum_type(members: &[Value]) -> Type {
    if members.len() <= ENUM_MEMBERS_MAX {
        return Type::union(members.iter().map(|member| Type::atom(literal(member))));
    }
    Type::union(members.iter().map(|member| match member {
        Value::Null => Type::atom("null"),
        Value::Bool(_) => Type::atom("boolean"),
        Value::Number(_) => Type::atom("number"),
        Value::String(_) => Type::atom("string"),
        Value::Array(_) | Value::Object(_) => Type::unknown(),
    }))
}

fn member(name: &str, optional: bool, of: &str, comment: &str) -> String {
    format!("{comment}{}{}: {of};", property_name(name), if optional { "?" } else { "" })
}

fn property_comment(schema: &Value) -> String {
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    let description = text("description").map(str::to_owned);
    let format = text("format").map(|format| format!("@format {}", format.replace(['\r', '\n'], " ")));
    let lines: Vec<String> = description.into_iter().chain(format).collect();
    doc_comment(&lines.join("\n"))
}

fn braced(members: &[String]) -> String {
    let line = format!("{{ {} }}", members.join(" ").trim_end_matches(';'));
    if line.len() <= LINE_CHARS_MAX && !line.contains(['\n']) && !line.contains("/**") {
        return line;
    }
    format!("{{\n{}\n}}", indented(&members.join("\n")))
}

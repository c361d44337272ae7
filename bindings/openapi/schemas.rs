//! Schemas of a document as JSON Schema 2020-12, complete in themselves.
//!
//! A schema of 3.0 is a dialect; one of 3.1 may point anywhere in the document. Each schema that is referred to becomes
//! one of the `$defs`, nearest first, until the schema is as long as it may be: definitions past that accept any value.
//! Cycles need no care, because a definition that has a name is not visited again.

mod dialect;
mod discriminator;

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::document::{Document, brief, local_pointer};
use dialect::{exclusive_bounds, nullable};
use discriminator::Discriminator;

/// Longest schema of an input or an output, with its definitions. As TypeScript it is some thousand tokens.
/// Past it: the rest accepts any value, and `check` says so.
pub(super) const SCHEMA_BYTES_MAX: usize = 32 << 10;

/// Deepest nesting of one definition. The check of schemas refuses deeper ones.
pub(super) const SCHEMA_DEPTH_MAX: usize = 64;

/// Longest description inside of a schema; the first sentences say what a property is.
const SCHEMA_TEXT_BYTES_MAX: usize = 1024;

/// Keywords that mean the same in all dialects and hold no schema. Others, also extensions, are left out.
const PLAIN_KEYWORDS: [&str; 20] = [
    "type",
    "format",
    "enum",
    "const",
    "default",
    "multipleOf",
    "maximum",
    "minimum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "dependentRequired",
];

/// Which way values go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Input,
    Output,
}

/// What is left out of schemas where the whole of them cannot be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Looseness {
    /// Definitions are missing, so nothing may depend on a value not fitting.
    pub(super) is_cut: bool,
    /// Patterns are of another dialect than ours, or cost too much.
    pub(super) is_without_patterns: bool,
}

/// Why a definition could not be translated.
enum Stop {
    TooLong,
    Invalid(String),
}

/// Translates the parts of one input or output.
pub(super) struct Translator<'a> {
    document: &'a Document,
    direction: Direction,
    looseness: Looseness,
    /// Whether `format: binary` is bytes: in forms it is, in JSON it is a text.
    pub(super) takes_files: bool,
    bytes_left: usize,
    /// Names of definitions by their pointers.
    names: HashMap<String, String>,
    used: HashSet<String>,
    queue: VecDeque<(String, String)>,
    /// Whether something was left out for its length.
    pub(super) is_cut: bool,
}

impl<'a> Translator<'a> {
    pub(super) fn new(document: &'a Document, direction: Direction, looseness: Looseness) -> Self {
        Self {
            document,
            direction,
            looseness,
            takes_files: false,
            bytes_left: SCHEMA_BYTES_MAX,
            names: HashMap::new(),
            used: HashSet::new(),
            queue: VecDeque::new(),
            is_cut: false,
        }
    }

    /// The bytes of all that was translated.
    pub(super) fn bytes(&self) -> usize {
        SCHEMA_BYTES_MAX - self.bytes_left
    }

    /// Translates one schema. What it refers to is translated by [`Self::finish`].
    pub(super) fn translate(&mut self, schema: &Value) -> Result<Value, String> {
        match self.schema(schema, 0) {
            Ok(schema) => Ok(schema),
            Err(Stop::TooLong) => {
                self.cut();
                Ok(json!({}))
            }
            Err(Stop::Invalid(reason)) => Err(reason),
        }
    }

    /// Adds the definitions to the schema that was made of translated ones.
    pub(super) fn finish(&mut self, mut root: Value) -> Result<Value, String> {
        let mut definitions = Map::new();
        while let Some((pointer, name)) = self.queue.pop_front() {
            let document = self.document;
            let target = document.at(&pointer);
            let target =
                target.ok_or_else(|| format!("the reference `#{}` leads nowhere", brief(&pointer)))?;
            let schema = if self.is_cut { json!({}) } else { self.translate(target)? };
            definitions.insert(name, schema);
        }
        if !definitions.is_empty()
            && let Some(fields) = root.as_object_mut()
        {
            fields.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Ok(root)
    }

    fn cut(&mut self) {
        self.is_cut = true;
        self.bytes_left = 0;
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Stop> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(Stop::TooLong)?;
        Ok(())
    }

    fn schema(&mut self, schema: &Value, depth: usize) -> Result<Value, Stop> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(Stop::Invalid(format!("a schema nests deeper than {SCHEMA_DEPTH_MAX} levels")));
        }
        self.charge(2)?;
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(_) => return Ok(schema.clone()),
            _ => return Err(Stop::Invalid("expected a schema, got something else".to_owned())),
        };
        if self.takes_files && is_file(fields) {
            return Ok(file_schema());
        }
        let mut out = Map::new();
        if let Some(reference) = fields.get("$ref") {
            let pointer = local_pointer(reference).map_err(Stop::Invalid)?;
            out.insert("$ref".to_owned(), self.reference(&pointer)?);
        }
        // In 3.0, what stands beside a reference is ignored; its description is harmless.
        let has_only_reference = self.document.is_3_0 && fields.contains_key("$ref");
        let keywords = fields.iter().filter(|(key, _)| !has_only_reference || *key == "description");
        for (key, value) in keywords {
            self.keyword(fields, key, value, &mut out, depth)?;
        }
        exclusive_bounds(&mut out);
        Ok(if fields.get("nullable") == Some(&Value::Bool(true)) {
            nullable(out)
        } else {
            Value::Object(out)
        })
    }

    fn keyword(
        &mut self,
        fields: &Map<String, Value>,
        key: &str,
        value: &Value,
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Stop> {
        let is_exact = !self.looseness.is_cut;
        let translated = match (key, value) {
            ("properties" | "patternProperties" | "dependentSchemas", Value::Object(members)) => {
                if key == "patternProperties" && self.looseness.is_without_patterns {
                    return Ok(());
                }
                self.members(members, depth)?
            }
            ("items", Value::Array(items)) => {
                out.insert("prefixItems".to_owned(), self.branches(items, depth)?);
                return Ok(());
            }
            ("items" | "additionalProperties" | "contains" | "propertyNames", _) => {
                self.schema(value, depth + 1)?
            }
            ("not" | "if" | "then" | "else" | "unevaluatedItems" | "unevaluatedProperties", _)
                if is_exact =>
            {
                self.schema(value, depth + 1)?
            }
            ("allOf" | "prefixItems", Value::Array(branches)) => self.branches(branches, depth)?,
            ("oneOf" | "anyOf", Value::Array(branches)) => {
                let discriminator = fields.get("discriminator").and_then(Discriminator::read);
                let branches = self.alternatives(branches, discriminator.as_ref(), depth)?;
                // A server that sends what fits two alternatives is not worth a failed call.
                let is_loose = self.direction == Direction::Output || !is_exact;
                let keyword = if is_loose && !fields.contains_key("anyOf") { "anyOf" } else { key };
                out.insert(keyword.to_owned(), branches);
                return Ok(());
            }
            ("required", Value::Array(names)) => self.required(fields, names),
            ("description" | "title", Value::String(text)) => {
                text[..text.floor_char_boundary(SCHEMA_TEXT_BYTES_MAX)].into()
            }
            ("pattern", _) if !self.looseness.is_without_patterns => value.clone(),
            (key, _) if PLAIN_KEYWORDS.contains(&key) => value.clone(),
            _ => return Ok(()),
        };
        let own_bytes = match key {
            "properties" | "patternProperties" | "dependentSchemas" | "allOf" | "prefixItems" => 0,
            _ if translated.is_object() && !PLAIN_KEYWORDS.contains(&key) => 0,
            _ => translated.to_string().len(),
        };
        self.charge(key.len() + 4 + own_bytes)?;
        out.insert(key.to_owned(), translated);
        Ok(())
    }

    /// Properties, without those that only go the other way.
    fn members(&mut self, members: &Map<String, Value>, depth: usize) -> Result<Value, Stop> {
        let mut out = Map::new();
        for (name, member) in members {
            if self.is_for_the_other_way(member) {
                continue;
            }
            self.charge(name.len() + 4)?;
            out.insert(name.clone(), self.schema(member, depth + 1)?);
        }
        Ok(Value::Object(out))
    }

    fn is_for_the_other_way(&self, property: &Value) -> bool {
        let keyword = match self.direction {
            Direction::Input => "readOnly",
            Direction::Output => "writeOnly",
        };
        property.get(keyword) == Some(&Value::Bool(true))
    }

    fn required(&self, fields: &Map<String, Value>, names: &[Value]) -> Value {
        let property = |name: &Value| fields.get("properties")?.get(name.as_str()?);
        let is_kept = |name: &&Value| !property(name).is_some_and(|schema| self.is_for_the_other_way(schema));
        names.iter().filter(is_kept).cloned().collect()
    }

    fn branches(&mut self, branches: &[Value], depth: usize) -> Result<Value, Stop> {
        branches.iter().map(|branch| self.schema(branch, depth + 1)).collect()
    }

    /// The branches of `oneOf` and `anyOf`; with a discriminator, each takes only its own values of that property.
    fn alternatives(
        &mut self,
        branches: &[Value],
        discriminator: Option<&Discriminator<'_>>,
        depth: usize,
    ) -> Result<Value, Stop> {
        let mut out = Vec::new();
        for branch in branches {
            let translated = self.schema(branch, depth + 1)?;
            let own =
                discriminator.zip(branch.get("$ref").and_then(|reference| local_pointer(reference).ok()));
            out.push(match own {
                Some((discriminator, pointer)) => {
                    let condition = discriminator.condition(&pointer);
                    self.charge(condition.to_string().len())?;
                    json!({"allOf": [translated, condition]})
                }
                None => translated,
            });
        }
        Ok(Value::Array(out))
    }

    /// The reference to the definition of what a pointer leads to.
    fn reference(&mut self, pointer: &str) -> Result<Value, Stop> {
        if let Some(name) = self.names.get(pointer) {
            let reference = format!("#/$defs/{name}");
            self.charge(reference.len())?;
            return Ok(reference.into());
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' };
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let mut name: String = last.chars().take(100).map(plain).collect();
        if name.is_empty() {
            name.push('_');
        }
        let base = name.clone();
        for number in 2.. {
            if self.used.insert(name.clone()) {
                break;
            }
            name = format!("{base}_{number}");
        }
        self.names.insert(pointer.to_owned(), name.clone());
        self.queue.push_back((pointer.to_owned(), name.clone()));
        self.charge(2 * name.len() + 12)?;
        Ok(format!("#/$defs/{name}").into())
    }
}

/// Whether a schema of a form means the bytes of a file.
fn is_file(fields: &Map<String, Value>) -> bool {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let is_text = matches!(text("type"), Some("string") | None);
    let is_raw = fields.contains_key("contentMediaType") && !fields.contains_key("contentEncoding");
    is_text && (text("format") == Some("binary") || is_raw)
}

/// Bytes as a script has them.
pub(super) fn bytes_schema() -> Value {
    json!({"type": "object", "properties": {"$bytes": {"type": "string"}}, "required": ["$bytes"]})
}

/// The part of a form that is a file: bytes, a text, or either with a name and a type.
fn file_schema() -> Value {
    let data = json!({"anyOf": [bytes_schema(), {"type": "string"}]});
    json!({"anyOf": [
        bytes_schema(),
        {"type": "string"},
        {
            "type": "object",
            "properties": {"data": data, "filename": {"type": "string"}, "contentType": {"type": "string"}},
            "required": ["data", "filename"],
            "additionalProperties": false,
        },
    ]})
}

#[cfg(test)]
mod tests;

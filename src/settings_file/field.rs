//! The keys of a settings type, taken from its JSON Schema.
//!
//! Doc comments are the descriptions. Three extensions say what a schema cannot: `x-path` marks a path, `x-default` says in
//! words what a default depends on, `x-example` is a value for a key that has no default.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Unit;

/// A key of a settings file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// What it means, in Markdown.
    pub(crate) doc: String,
    pub(crate) kind: Kind,
    /// What it is if nothing sets it; absent if it is then not set, or if it depends on the machine.
    pub(crate) default: Option<Value>,
    /// What its default depends on.
    pub(crate) default_text: Option<String>,
    /// A value that it may have.
    pub(crate) example: Option<Value>,
    pub(crate) is_required: bool,
}

/// The type of a setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Table(Vec<Field>),
    /// A table whose keys are names that the operator chooses.
    Map(Box<Kind>),
    List(Box<Kind>),
    Integer {
        max: i64,
    },
    Number,
    Boolean,
    Text,
    /// A file or a folder; in a settings file it is meant from the folder of that file.
    Path,
    /// One of these words.
    Choice(Vec<String>),
    /// Something that this reader does not know; no setting may have it.
    Unknown,
}

impl Field {
    /// What a number counts, if its name says so.
    pub(crate) fn unit(&self) -> Option<Unit> {
        match self.kind {
            Kind::Integer { .. } => Unit::of_key(&self.name),
            _ => None,
        }
    }

    /// A value to show: the example, or else the default.
    pub(crate) fn sample(&self) -> Option<&Value> {
        self.example.as_ref().or(self.default.as_ref())
    }
}

/// The keys of a type, in the order of its struct.
pub(crate) fn fields_of<T: JsonSchema>() -> Vec<Field> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    match kind_of(schema.as_value()) {
        Kind::Table(fields) => fields,
        _ => Vec::new(),
    }
}

fn kind_of(schema: &Value) -> Kind {
    let schema = without_null(schema);
    let words = choices(schema);
    if !words.is_empty() {
        return Kind::Choice(words);
    }
    match type_name(schema) {
        "object" => match (schema.get("properties"), schema.get("additionalProperties")) {
            (Some(Value::Object(properties)), _) => {
                let required = schema.get("required");
                let is_required = |name: &str| {
                    required.and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == name))
                };
                Kind::Table(
                    properties
                        .iter()
                        .map(|(name, schema)| field_of(name, schema, is_required(name)))
                        .collect(),
                )
            }
            (_, Some(values @ Value::Object(_))) => Kind::Map(Box::new(kind_of(values))),
            (_, _) => Kind::Unknown,
        },
        "array" => Kind::List(Box::new(schema.get("items").map_or(Kind::Unknown, kind_of))),
        "integer" => {
            let max = if schema["format"] == "uint32" { i64::from(u32::MAX) } else { i64::MAX };
            Kind::Integer { max }
        }
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        "string" if schema["x-path"] == true => Kind::Path,
        "string" => Kind::Text,
        _ => Kind::Unknown,
    }
}

fn field_of(name: &str, schema: &Value, is_required: bool) -> Field {
    let text = |key: &str| schema[key].as_str().map(str::to_owned);
    let default_text = text("x-default");
    let default = schema.get("default").filter(|value| !value.is_null() && default_text.is_none());
    let mut kind = kind_of(schema);
    // The attributes of a field stand beside those of its type.
    if schema["x-path"] == true {
        kind = match kind {
            Kind::List(_) => Kind::List(Box::new(Kind::Path)),
            _ => Kind::Path,
        };
    }
    Field {
        name: name.to_owned(),
        doc: text("description").unwrap_or_default(),
        kind,
        default: default.cloned(),
        default_text,
        example: schema.get("x-example").cloned(),
        is_required,
    }
}

/// The schema of what an `Option` may hold.
fn without_null(schema: &Value) -> &Value {
    let options = schema["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    match options {
        [one, null] if null["type"] == "null" => one,
        _ => schema,
    }
}

fn type_name(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(name) => name,
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or_default()
        }
        _ => "",
    }
}

/// The words of an enum without data, with or without documentation of their own.
fn choices(schema: &Value) -> Vec<String> {
    let listed = schema["enum"].as_array().into_iter().flatten();
    let documented = schema["oneOf"].as_array().into_iter().flatten().flat_map(|one| {
        let several = one["enum"].as_array().into_iter().flatten();
        one.get("const").into_iter().chain(several)
    });
    listed.chain(documented).filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(serde::Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code, reason = "only its schema is looked at")]
    enum Colour {
        /// As a rose.
        Red,
        /// As the sky.
        Blue,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Inner {
        /// How long.
        wait_ms: u64,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Outer {
        colour: Option<Colour>,
        inner: Option<Inner>,
        #[schemars(extend("x-path" = true))]
        files: Vec<std::path::PathBuf>,
        #[schemars(extend("x-path" = true))]
        file: Option<std::path::PathBuf>,
        depth: u32,
        named: BTreeMap<String, f64>,
    }

    #[test]
    fn fields_have_the_kinds_of_their_types() {
        let fields = fields_of::<Outer>();
        let kinds: Vec<(&str, &Kind)> =
            fields.iter().map(|field| (field.name.as_str(), &field.kind)).collect();
        let Kind::Table(inner) = kinds[1].1 else { panic!("{:?}", kinds[1]) };
        assert_eq!((inner[0].doc.as_str(), inner[0].unit()), ("How long.", Some(Unit::Milliseconds)));
        assert_eq!(kinds[0].1, &Kind::Choice(vec!["red".to_owned(), "blue".to_owned()]));
        assert_eq!(kinds[2].1, &Kind::List(Box::new(Kind::Path)));
        assert_eq!(kinds[3].1, &Kind::Path);
        assert_eq!(kinds[4].1, &Kind::Integer { max: i64::from(u32::MAX) });
        assert_eq!(kinds[5].1, &Kind::Map(Box::new(Kind::Number)));
        assert!(fields[4].is_required && !fields[0].is_required);
    }
}

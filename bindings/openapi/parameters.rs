//! The parameters of an operation: where each goes, how it is written, and what it is called in the input.

use std::collections::BTreeSet;

use oas3::spec::{ParameterIn, ParameterStyle};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::http::fetch::HEADERS_RESERVED;
use super::auth::Credentials;
use super::document::{Document, brief};
use super::operations::{Operation, read};
use super::schemas::Translator;

/// Most parameters of an operation. Past it: the operation is not mapped.
pub(super) const PARAMETERS_MAX: usize = 256;

/// Headers that other parts of a document describe.
const HEADERS_IGNORED: [&str; 3] = ["accept", "content-type", "authorization"];

/// The member of the input that is the body.
pub(super) const BODY: &str = "body";

/// Where a parameter stands in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Location {
    Path,
    Query,
    Header,
    Cookie,
}

impl Location {
    fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    fn default_style(self) -> ParameterStyle {
        match self {
            Self::Path | Self::Header => ParameterStyle::Simple,
            Self::Query | Self::Cookie => ParameterStyle::Form,
        }
    }

    /// The styles that the specification has for a place.
    fn has_style(self, style: ParameterStyle) -> bool {
        use ParameterStyle::{DeepObject, Form, Label, Matrix, PipeDelimited, Simple, SpaceDelimited};
        match style {
            Simple => matches!(self, Self::Path | Self::Header),
            Label | Matrix => self == Self::Path,
            Form => matches!(self, Self::Query | Self::Cookie),
            SpaceDelimited | PipeDelimited | DeepObject => self == Self::Query,
        }
    }
}

/// How a value becomes text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ParamEncoding {
    Style { style: ParameterStyle, is_exploded: bool, allows_reserved: bool },
    Json,
}

impl ParamEncoding {
    /// As the specification has it where a document says nothing else.
    pub(super) fn of_style(style: ParameterStyle, is_exploded: Option<bool>, allows_reserved: bool) -> Self {
        let is_exploded = is_exploded.unwrap_or(style == ParameterStyle::Form);
        Self::Style { style, is_exploded, allows_reserved }
    }
}

/// A parameter that the script passes.
#[derive(Debug, Clone)]
pub(super) struct Param {
    /// Its name in the request.
    pub(super) name: String,
    /// Its name in the input.
    pub(super) property: String,
    pub(super) location: Location,
    pub(super) encoding: ParamEncoding,
}

/// The parameters of an operation, and the members of the input that they are.
#[derive(Debug, Default)]
pub(super) struct MappedParams {
    pub(super) params: Vec<Param>,
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<String>,
}

/// A parameter as the document has it.
struct Stated<'a> {
    location: Location,
    spec: oas3::spec::Parameter,
    value: &'a Value,
}

/// Maps the parameters of an operation. `has_body` says whether the input has a member for the body.
pub(super) fn map(
    document: &Document,
    operation: &Operation<'_>,
    credentials: &Credentials,
    has_body: bool,
    translator: &mut Translator<'_>,
) -> Result<MappedParams, String> {
    let stated = stated(document, operation)?;
    let mut mapped = MappedParams::default();
    let mut taken: BTreeSet<String> = has_body.then(|| BODY.to_owned()).into_iter().collect();
    for one in &stated {
        let name = &one.spec.name;
        if credentials.own(one.location, name) || !is_sendable(one)? {
            continue;
        }
        let inside =
            |reason: String| format!("the {} parameter `{}`: {reason}", one.location.name(), brief(name));
        let (encoding, schema) = encoding(one, translator).map_err(inside)?;
        let property = free_name(one, &mut taken);
        let is_required = one.location == Location::Path || one.spec.required == Some(true);
        if is_required {
            mapped.required.push(property.clone());
        }
        mapped.properties.insert(property.clone(), described(schema, one, &property));
        mapped.params.push(Param { name: name.clone(), property, location: one.location, encoding });
    }
    add_undeclared(operation.path, &mut mapped, &mut taken);
    Ok(mapped)
}

/// The parameters of the path, then those of the operation, which count more. Ordered by place.
fn stated<'a>(document: &'a Document, operation: &Operation<'a>) -> Result<Vec<Stated<'a>>, String> {
    let mut stated: Vec<Stated<'a>> = Vec::new();
    for owner in [operation.item, operation.value] {
        let listed = match owner.get("parameters") {
            None | Some(Value::Null) => continue,
            Some(Value::Array(listed)) => listed,
            Some(_) => return Err("`parameters`: expected a list".to_owned()),
        };
        if listed.len() > PARAMETERS_MAX {
            return Err(format!("expected at most {PARAMETERS_MAX} parameters"));
        }
        for (at, parameter) in listed.iter().enumerate() {
            let value = document.resolve(parameter)?;
            let spec: oas3::spec::Parameter = read(value, &["schema", "content", "example", "examples"])
                .map_err(|error| format!("parameters[{at}]: {error}"))?;
            let location = match spec.location {
                ParameterIn::Path => Location::Path,
                ParameterIn::Query => Location::Query,
                ParameterIn::Header => Location::Header,
                ParameterIn::Cookie => Location::Cookie,
            };
            stated.retain(|other| other.location != location || other.spec.name != spec.name);
            stated.push(Stated { location, spec, value });
        }
    }
    stated.sort_by_key(|one| one.location);
    Ok(stated)
}

/// Whether a parameter is one that a request can have. A required one that cannot be sent is an error.
fn is_sendable(one: &Stated<'_>) -> Result<bool, String> {
    if one.location != Location::Header {
        return Ok(true);
    }
    let name = one.spec.name.to_ascii_lowercase();
    if HEADERS_IGNORED.contains(&name.as_str()) {
        return Ok(false);
    }
    let is_valid = reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
    match is_valid && !HEADERS_RESERVED.contains(&name.as_str()) && name != "cookie" {
        false if one.spec.required == Some(true) => {
            Err(format!("the header `{}` is required and cannot be set", brief(&one.spec.name)))
        }
        is_sendable => Ok(is_sendable),
    }
}

fn encoding(one: &Stated<'_>, translator: &mut Translator<'_>) -> Result<(ParamEncoding, Value), String> {
    match (one.value.get("schema"), one.value.get("content")) {
        (schema, None) => {
            let style = one.spec.style.unwrap_or(one.location.default_style());
            if !one.location.has_style(style) {
                return Err(format!("the style {style:?} is not defined there"));
            }
            let allows_reserved = one.spec.allow_reserved == Some(true);
            let encoding = ParamEncoding::of_style(style, one.spec.explode, allows_reserved);
            Ok((encoding, schema.map_or_else(|| Ok(json!({})), |schema| translator.translate(schema))?))
        }
        (_, Some(Value::Object(content))) => match content.iter().next() {
            Some((media_type, content)) if super::media::is_json(media_type) => {
                let schema = content.get("schema").map(|schema| translator.translate(schema)).transpose()?;
                Ok((ParamEncoding::Json, schema.unwrap_or_else(|| json!({}))))
            }
            Some((media_type, _)) => Err(format!("expected JSON, got `{}`", brief(media_type))),
            None => Err("`content` is empty".to_owned()),
        },
        (_, Some(_)) => Err("`content`: expected an object".to_owned()),
    }
}

/// The parameter's name, with its place before it where another member has that name.
fn free_name(one: &Stated<'_>, taken: &mut BTreeSet<String>) -> String {
    let mut name = one.spec.name.clone();
    if taken.contains(&name) {
        name = format!("{}_{name}", one.location.name());
    }
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

/// The schema with the parameter's own description, and its name where the input has another.
fn described(schema: Value, one: &Stated<'_>, property: &str) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    let own = one.spec.description.as_deref().filter(|text| !text.is_empty());
    let own = own.map(|text| text[..text.floor_char_boundary(1024)].to_owned());
    let renamed = (property != one.spec.name)
        .then(|| format!("The {} parameter `{}`.", one.location.name(), one.spec.name));
    let parts: Vec<String> = own.into_iter().chain(renamed).collect();
    if !parts.is_empty() {
        fields.insert("description".to_owned(), parts.join(" ").into());
    }
    Value::Object(fields)
}

/// Parts of the path that no parameter is declared for: each is a text.
fn add_undeclared(path: &str, mapped: &mut MappedParams, taken: &mut BTreeSet<String>) {
    for name in placeholders(path) {
        let is_declared =
            mapped.params.iter().any(|param| param.location == Location::Path && param.name == name);
        if is_declared {
            continue;
        }
        let mut property = name.to_owned();
        while !taken.insert(property.clone()) {
            property.push('_');
        }
        mapped.required.push(property.clone());
        mapped.properties.insert(property.clone(), json!({"type": "string"}));
        let encoding = ParamEncoding::of_style(ParameterStyle::Simple, None, false);
        mapped.params.push(Param { name: name.to_owned(), property, location: Location::Path, encoding });
    }
}

/// The names in braces in a path.
pub(super) fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|part| part.split_once('}').map(|(name, _)| name))
}

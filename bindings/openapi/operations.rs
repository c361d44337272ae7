//! The operations of a document, their names, and each as a declaration with a plan of its requests.
//!
//! Pure. One bad operation is no reason to refuse the others: it is listed with the reason.

use std::collections::BTreeMap;

use oas3::spec::Operation as OperationSpec;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::auth::Credentials;
use super::bodies::{BodyPlan, StatedBody};
use super::config::OperationRules;
use super::document::{Document, brief};
use super::parameters::{self, BODY, MappedParams, Param};
use super::responses;
use super::schemas::{Direction, Looseness, SCHEMA_BYTES_MAX, Translator};
use super::servers::Base;
use crate::catalog::CompiledSchemas;
use crate::package::{UnmappedItem, identifiers};
use crate::protocol::declaration::{DESCRIPTION_BYTES_MAX, Declaration};
use crate::protocol::names::check as check_name;
use crate::schema::SchemaSource;

/// Most operations of a package. Past it: the rest is not mapped; `include` chooses others.
pub(super) const OPERATIONS_MAX: usize = 2_000;

/// Most bytes of all schemas of a package, which are kept compiled. Past it: as above.
pub(super) const SCHEMAS_BYTES_MAX: usize = 32 << 20;

/// Items that are listed as not mapped. A person fixes the first ones.
const UNMAPPED_LISTED_MAX: usize = 1_000;

const METHODS: [(&str, Method); 8] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("options", Method::OPTIONS),
    ("head", Method::HEAD),
    ("patch", Method::PATCH),
    ("trace", Method::TRACE),
];

/// The names of all methods that an operation may have.
pub(super) fn method_names() -> Vec<String> {
    METHODS.iter().map(|(_, method)| method.to_string()).collect()
}

/// An operation as the document has it.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) id: Option<&'a str>,
    pub(super) tags: Vec<&'a str>,
    /// The path's object, which has parameters and servers for all its operations.
    pub(super) item: &'a Value,
    pub(super) value: &'a Value,
}

impl Operation<'_> {
    /// `GET /pets/{id}`, for messages and the operator's lists.
    pub(super) fn place(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// A name for an operation without one: `get_pets_id`.
    fn derived_name(&self) -> String {
        let words = self.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let method = self.method.as_str().to_ascii_lowercase();
        std::iter::once(method.as_str()).chain(words).collect::<Vec<_>>().join("_")
    }
}

/// What a request of an operation is made of.
#[derive(Debug)]
pub(super) struct RequestPlan {
    pub(super) place: String,
    pub(super) method: Method,
    pub(super) base: Base,
    pub(super) path: String,
    pub(super) params: Vec<Param>,
    pub(super) body: Option<BodyPlan>,
    pub(super) accept: String,
}

/// What became of the operations of a document.
#[derive(Debug, Default)]
pub(super) struct MappedOperations {
    pub(super) operations: Vec<(Declaration, RequestPlan)>,
    pub(super) unmapped: Vec<UnmappedItem>,
    /// What is mapped, but not as the document has it.
    pub(super) notes: Vec<UnmappedItem>,
    left_out: usize,
}

impl MappedOperations {
    fn skip(&mut self, name: &str, reason: impl Into<String>) {
        match self.unmapped.len() < UNMAPPED_LISTED_MAX {
            true => self.unmapped.push(UnmappedItem { name: brief(name), reason: reason.into() }),
            false => self.left_out += 1,
        }
    }

    fn note(&mut self, name: &str, text: impl Into<String>) {
        if self.notes.len() < UNMAPPED_LISTED_MAX {
            self.notes.push(UnmappedItem { name: brief(name), reason: text.into() });
        }
    }
}

/// What operations are mapped with.
pub(super) struct Mapping<'a> {
    pub(super) package: &'a str,
    pub(super) document: &'a Document,
    pub(super) base: &'a Base,
    pub(super) rules: &'a OperationRules,
    pub(super) credentials: &'a Credentials,
}

/// Reads a part of the document into a type of the crate, without the members that are read otherwise.
pub(super) fn read<T: DeserializeOwned>(value: &Value, without: &[&str]) -> Result<T, String> {
    let Value::Object(fields) = value else { return Err("expected an object".to_owned()) };
    let is_kept = |(key, _): &(&String, &Value)| !without.contains(&key.as_str()) && !key.starts_with("x-");
    let fields: Map<String, Value> =
        fields.iter().filter(is_kept).map(|(key, value)| (key.clone(), value.clone())).collect();
    T::deserialize(Value::Object(fields)).map_err(|error| brief(&error.to_string()))
}

impl Mapping<'_> {
    /// Maps the operations that the rules let through.
    pub(super) fn map(&self) -> MappedOperations {
        let mut mapped = MappedOperations::default();
        let listed = self.list(&mut mapped);
        for entry in self.rules.unused(&listed) {
            mapped.skip(entry, "named in `include`, `exclude` or `effects`, but no operation fits it");
        }
        let admitted: Vec<Operation<'_>> =
            listed.into_iter().filter(|operation| self.rules.admits(operation)).collect();
        let names = assign_names(&admitted, &mut mapped);
        let (mut count, mut bytes) = (0, 0);
        for (operation, name) in admitted.iter().zip(names) {
            let place = operation.place();
            if count == OPERATIONS_MAX {
                mapped.skip(
                    &place,
                    format!("the package has {OPERATIONS_MAX} operations already; choose some by `include`"),
                );
                continue;
            }
            if bytes > SCHEMAS_BYTES_MAX {
                mapped.skip(&place, format!("the schemas of the package have {SCHEMAS_BYTES_MAX} bytes already; choose operations by `include`"));
                continue;
            }
            let result = name
                .ok_or_else(|| "no identifier could be found that another operation does not have".to_owned())
                .and_then(|name| self.map_operation(operation, &name));
            match result {
                Ok(one) => {
                    count += 1;
                    bytes += one.schema_bytes;
                    one.notes.iter().for_each(|note| mapped.note(&place, note));
                    mapped.operations.push((one.declaration, one.plan));
                }
                Err(reason) => mapped.skip(&place, reason),
            }
        }
        if mapped.left_out > 0 {
            let reason = format!("{} further items are not mapped either", mapped.left_out);
            mapped.unmapped.push(UnmappedItem { name: "paths".to_owned(), reason });
        }
        mapped
    }

    /// All operations, in the order of the document.
    fn list(&self, mapped: &mut MappedOperations) -> Vec<Operation<'_>> {
        let mut operations = Vec::new();
        let paths = match self.document.get("paths") {
            Some(Value::Object(paths)) => paths,
            None => return operations,
            Some(_) => {
                mapped.skip("paths", "expected an object");
                return operations;
            }
        };
        for (path, item) in paths.iter().filter(|(path, _)| !path.starts_with("x-")) {
            let item = match self.document.resolve(item) {
                Ok(item @ Value::Object(_)) => item,
                Ok(_) => {
                    mapped.skip(path, "expected an object");
                    continue;
                }
                Err(reason) => {
                    mapped.skip(path, reason);
                    continue;
                }
            };
            for (name, method) in METHODS {
                let Some(value) = item.get(name) else { continue };
                let tags = value.get("tags").and_then(Value::as_array).into_iter().flatten();
                operations.push(Operation {
                    method,
                    path,
                    id: value.get("operationId").and_then(Value::as_str).filter(|id| !id.is_empty()),
                    tags: tags.filter_map(Value::as_str).collect(),
                    item,
                    value,
                });
            }
        }
        operations
    }

    fn map_operation(&self, operation: &Operation<'_>, identifier: &str) -> Result<MappedOperation, String> {
        let mut looseness = Looseness::default();
        loop {
            let one = self.map_loosely(operation, identifier, looseness)?;
            if one.is_cut && !looseness.is_cut {
                looseness.is_cut = true;
                continue;
            }
            // Registered later, where a refusal would be a problem of the start.
            match CompiledSchemas::compile(&one.declaration, SchemaSource::Executable) {
                Ok(_) => return Ok(one),
                Err(_) if !looseness.is_without_patterns => looseness.is_without_patterns = true,
                Err(error) => return Err(format!("{}: {}", error.path, error.message)),
            }
        }
    }

    fn map_loosely(
        &self,
        operation: &Operation<'_>,
        identifier: &str,
        looseness: Looseness,
    ) -> Result<MappedOperation, String> {
        let name = format!("{}.{identifier}", self.package);
        check_name(&name).map_err(|error| error.to_string())?;
        if !operation.path.starts_with('/') {
            return Err("expected a path that begins with `/`".to_owned());
        }
        let skipped =
            ["parameters", "requestBody", "responses", "callbacks", "security", "servers", "externalDocs"];
        let spec: OperationSpec = read(operation.value, &skipped)?;
        let mut translator = Translator::new(self.document, Direction::Input, looseness);
        let body = StatedBody::read(self.document, operation)?;
        let has_body = body.is_some();
        let params = parameters::map(self.document, operation, self.credentials, has_body, &mut translator)?;
        let body = body.map(|body| body.map(&mut translator)).transpose()?;
        let (params, input, body) = input_schema(params, body);
        let input = translator.finish(input)?;
        let mut outputs = Translator::new(self.document, Direction::Output, looseness);
        let responses = responses::map(self.document, operation, &mut outputs)?;
        let schema = responses.schema.filter(|_| !self.rules.is_output_free);
        let output = responses::output(schema, self.rules.response);
        let output = output.map(|output| outputs.finish(output)).transpose()?;
        let declaration = Declaration {
            description: describe(operation, &spec),
            input: Some(input),
            output,
            effects: self.rules.effects_of(operation).cloned().unwrap_or_else(|| effects(&operation.method)),
            hints: Some(json!({"openapi": {"operation": operation.place(), "operationId": operation.id}})),
            ..Declaration::named(&name)
        };
        let plan = RequestPlan {
            place: operation.place(),
            method: operation.method.clone(),
            base: self.base.of_operation(operation)?,
            // Some documents tell operations of one path apart by what is not sent.
            path: operation.path.split('#').next().unwrap_or_default().to_owned(),
            params,
            body,
            accept: accept(&responses.accept),
        };
        let is_cut = translator.is_cut || outputs.is_cut;
        let mut notes = Vec::new();
        if is_cut {
            notes.push(format!("parts of its schemas past {SCHEMA_BYTES_MAX} bytes accept any value"));
        }
        if looseness.is_without_patterns {
            notes.push("the patterns of its schemas are not checked".to_owned());
        }
        let schema_bytes = translator.bytes() + outputs.bytes();
        Ok(MappedOperation { declaration, plan, is_cut, notes, schema_bytes })
    }
}

/// An operation that became a binding.
struct MappedOperation {
    declaration: Declaration,
    plan: RequestPlan,
    /// Whether parts of its schemas were left out.
    is_cut: bool,
    notes: Vec<String>,
    schema_bytes: usize,
}

/// The identifier of each operation. One that another would have too, is noted.
fn assign_names(operations: &[Operation<'_>], mapped: &mut MappedOperations) -> Vec<Option<String>> {
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    let mut keys: Vec<String> = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let candidates =
            [operation.id.map(str::to_owned), Some(operation.derived_name()), Some(operation.place())];
        let is_free = |key: &String| !owners.contains_key(key);
        let key = candidates.into_iter().flatten().find(is_free).unwrap_or_else(|| operation.place());
        owners.insert(key.clone(), at);
        keys.push(key);
    }
    let identifiers = identifiers::assign(keys.iter().map(String::as_str), &[]);
    let mut names = Vec::new();
    for (operation, key) in operations.iter().zip(&keys) {
        let name = identifiers.get(key.as_str()).cloned();
        let expected = operation.id.map_or_else(|| operation.derived_name(), str::to_owned);
        let expected = identifiers::identifier(&expected, &[]);
        if let Some(name) = name.as_ref().filter(|name| **name != expected) {
            mapped.note(&operation.place(), format!("is `{name}`, because `{expected}` would be ambiguous"));
        }
        names.push(name);
    }
    names
}

/// The schema of the input: parameters by their names, and the body.
fn input_schema(
    params: MappedParams,
    body: Option<(BodyPlan, Value)>,
) -> (Vec<Param>, Value, Option<BodyPlan>) {
    let MappedParams { params, mut properties, mut required } = params;
    let body = body.map(|(plan, schema)| {
        properties.insert(BODY.to_owned(), schema);
        if plan.is_required {
            required.push(BODY.to_owned());
        }
        plan
    });
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    (params, schema, body)
}

/// Summary and description, and whether it is still to be used.
fn describe(operation: &Operation<'_>, spec: &OperationSpec) -> Option<String> {
    let texts = [spec.summary.as_deref(), spec.description.as_deref()];
    let mut texts: Vec<&str> =
        texts.into_iter().flatten().map(str::trim).filter(|text| !text.is_empty()).collect();
    texts.dedup();
    if spec.deprecated == Some(true) {
        texts.insert(0, "Deprecated.");
    }
    let place = operation.place();
    if texts.is_empty() {
        texts.push(&place);
    }
    let text = texts.join("\n\n");
    Some(text[..text.floor_char_boundary(DESCRIPTION_BYTES_MAX)].to_owned())
}

fn effects(method: &Method) -> Vec<String> {
    let effect = if *method == Method::GET || *method == Method::HEAD { "read" } else { "external" };
    vec![effect.to_owned()]
}

/// What the server is asked for: the declared types first.
fn accept(media_types: &[String]) -> String {
    let is_plain =
        |name: &&String| reqwest::header::HeaderValue::from_str(name).is_ok() && !name.contains('*');
    let mut accepted: Vec<&str> = media_types.iter().filter(is_plain).map(String::as_str).take(8).collect();
    accepted.push(if accepted.is_empty() { "application/json, */*;q=0.5" } else { "*/*;q=0.1" });
    accepted.join(", ")
}

#[cfg(test)]
mod tests;

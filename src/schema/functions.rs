//! Functions with declared types: a schema may declare with `x-fn` what a function takes and returns.
//!
//! Only subschemas that are reached through `properties` count: for them the path of the function is known beforehand. Calls of such a function are checked like those of a binding.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::protocol::declaration::pointer_to;
use crate::protocol::fn_values;

use super::{Schema, SchemaBudget, SchemaError, SchemaSource, SchemaWarning};

/// How many levels of `properties` are searched.
const PLACE_DEPTH_MAX: usize = 16;

/// What a function takes and returns, as far as it is declared.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "StoredSchemas")]
pub struct FunctionSchemas {
    /// Checks its one argument.
    pub input: Option<Schema>,
    /// Checks its result.
    pub output: Option<Schema>,
    stored: StoredSchemas,
}

/// What [`FunctionSchemas`] were compiled from.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct StoredSchemas {
    schemas: Map<String, Value>,
    is_from_client: bool,
}

impl TryFrom<StoredSchemas> for FunctionSchemas {
    type Error = SchemaError;

    /// Compiles again what was accepted before, so nothing is charged.
    fn try_from(stored: StoredSchemas) -> Result<Self, SchemaError> {
        let budget = SchemaBudget::new(usize::MAX);
        let source =
            if stored.is_from_client { SchemaSource::Client(&budget) } else { SchemaSource::Executable };
        Self::compile(&stored.schemas, source)
    }
}

impl Serialize for FunctionSchemas {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.stored.serialize(serializer)
    }
}

impl FunctionSchemas {
    /// Compiles `input` and `output` of an object, if present.
    pub fn compile(of: &Map<String, Value>, source: SchemaSource<'_>) -> Result<Self, SchemaError> {
        let compile = |place: &str| {
            let compiled = of.get(place).map(|schema| Schema::compile(schema, source)).transpose();
            compiled.map_err(|error| SchemaError { path: format!("/{place}{}", error.path), ..error })
        };
        let schemas = ["input", "output"]
            .into_iter()
            .filter_map(|place| Some((place.to_owned(), of.get(place)?.clone())));
        let stored = StoredSchemas {
            schemas: schemas.collect(),
            is_from_client: matches!(source, SchemaSource::Client(_)),
        };
        Ok(Self { input: compile("input")?, output: compile("output")?, stored })
    }

    /// What was accepted although it is probably a mistake, with pointers into the object.
    pub fn warnings(&self) -> Vec<SchemaWarning> {
        let places = [("/input", &self.input), ("/output", &self.output)];
        let compiled = places.into_iter().filter_map(|(place, schema)| Some((place, schema.as_ref()?)));
        compiled.flat_map(|(place, schema)| prefixed(place, schema.warnings())).collect()
    }

    /// Whether neither is declared.
    pub fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }
}

/// Warnings with `place` before their pointers.
pub(crate) fn prefixed(place: &str, warnings: &[SchemaWarning]) -> Vec<SchemaWarning> {
    let moved = |warning: &SchemaWarning| SchemaWarning {
        path: format!("{place}{}", warning.path),
        message: warning.message.clone(),
    };
    warnings.iter().map(moved).collect()
}

/// A function in the input of a binding.
#[derive(Debug, Clone)]
pub struct FunctionParam {
    path: Vec<String>,
    /// What the function takes and returns.
    pub schemas: Arc<FunctionSchemas>,
}

impl FunctionParam {
    /// All functions that a schema declares.
    pub fn all_in(schema: Option<&Value>, source: SchemaSource<'_>) -> Result<Vec<Self>, SchemaError> {
        let mut found = Vec::new();
        if let Some(schema) = schema {
            collect(schema, source, &mut Vec::new(), &mut found)?;
        }
        Ok(found)
    }

    /// What was accepted although it is probably a mistake, with pointers into the schema.
    pub fn warnings(&self) -> Vec<SchemaWarning> {
        prefixed(&format!("{}/x-fn", pointer(&self.path)), &self.schemas.warnings())
    }

    /// The reference at this path of a value.
    pub fn reference<'a>(&self, value: &'a Value) -> Option<&'a str> {
        let place = self.path.iter().try_fold(value, |value, key| value.get(key))?;
        fn_values::id_of(place)
    }
}

/// The JSON Pointer of a path in the schema.
fn pointer(path: &[String]) -> String {
    path.iter().map(|key| format!("/properties{}", pointer_to(key))).collect()
}

fn collect(
    schema: &Value,
    source: SchemaSource<'_>,
    path: &mut Vec<String>,
    found: &mut Vec<FunctionParam>,
) -> Result<(), SchemaError> {
    if let Some(Value::Object(typed)) = schema.get("x-fn") {
        let schemas = FunctionSchemas::compile(typed, source).map_err(|error| SchemaError {
            path: format!("{}/x-fn{}", pointer(path), error.path),
            ..error
        })?;
        if !schemas.is_empty() {
            found.push(FunctionParam { path: path.clone(), schemas: Arc::new(schemas) });
        }
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object)
        && path.len() < PLACE_DEPTH_MAX
    {
        for (key, property) in properties {
            path.push(key.clone());
            collect(property, source, path, found)?;
            path.pop();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn declared_function_is_found_with_its_path() {
        let schema = json!({"properties": {"on": {"properties": {
            "tick": {"type": "object", "required": ["$fn"], "x-fn": {"input": {"type": "number"}}},
            "plain": {"type": "object", "required": ["$fn"]},
        }}}});
        let places = FunctionParam::all_in(Some(&schema), SchemaSource::Operator).unwrap();
        let [place] = places.as_slice() else { panic!("one place") };
        assert_eq!(place.reference(&json!({"on": {"tick": {"$fn": "f1"}}})), Some("f1"));
        assert_eq!(place.reference(&json!({"on": {}})), None);
        assert!(place.schemas.input.as_ref().unwrap().check(&json!("x")).is_err());
    }

    #[test]
    fn bad_schema_of_a_function_is_refused_with_its_path() {
        let schema = json!({"properties": {"f": {"x-fn": {"output": {"type": 5}}}}});
        let error = FunctionParam::all_in(Some(&schema), SchemaSource::Operator).unwrap_err();
        assert!(error.path.starts_with("/properties/f/x-fn/output"), "{}", error.path);
    }
}

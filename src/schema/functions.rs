//! Functions with declared types: a place of a schema may say with `x-fn` what its function takes and gives.
//!
//! Only places that are reached through `properties` are looked at: there a schema says beforehand where the function
//! stands. Calls of such a function are checked like those of a binding.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::protocol::declaration::pointer_to;
use crate::protocol::fn_values;

use super::{Schema, SchemaError, SchemaSource, SchemaWarning};

/// How deep into `properties` places are looked for.
const PLACE_DEPTH_MAX: usize = 16;

/// What a function takes and gives, as far as it is known.
#[derive(Debug, Default)]
pub struct FunctionSchemas {
    /// Checks its one argument.
    pub input: Option<Schema>,
    /// Checks its result.
    pub output: Option<Schema>,
}

impl FunctionSchemas {
    /// Compiles `input` and `output` of an object, where they stand.
    pub fn compile(of: &Map<String, Value>, source: SchemaSource<'_>) -> Result<Self, SchemaError> {
        let compile = |place: &str| {
            let compiled = of.get(place).map(|schema| Schema::compile(schema, source)).transpose();
            compiled.map_err(|error| SchemaError { path: format!("/{place}{}", error.path), ..error })
        };
        Ok(Self { input: compile("input")?, output: compile("output")? })
    }

    /// What was accepted although it is probably a mistake, with pointers into the object.
    pub fn warnings(&self) -> Vec<SchemaWarning> {
        let places = [("/input", &self.input), ("/output", &self.output)];
        let compiled = places.into_iter().filter_map(|(place, schema)| Some((place, schema.as_ref()?)));
        compiled.flat_map(|(place, schema)| prefixed(place, schema.warnings())).collect()
    }

    /// Whether they say anything.
    pub fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }
}

/// Warnings with their pointers counted from further out.
pub(crate) fn prefixed(place: &str, warnings: &[SchemaWarning]) -> Vec<SchemaWarning> {
    let moved = |warning: &SchemaWarning| SchemaWarning {
        path: format!("{place}{}", warning.path),
        message: warning.message.clone(),
    };
    warnings.iter().map(moved).collect()
}

/// A place of a function in the input of a binding.
#[derive(Debug, Clone)]
pub struct FunctionParam {
    path: Vec<String>,
    /// What the function there takes and gives.
    pub schemas: Arc<FunctionSchemas>,
}

impl FunctionParam {
    /// All places that a schema types.
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

    /// The reference that stands at this place of a value.
    pub fn reference<'a>(&self, value: &'a Value) -> Option<&'a str> {
        let place = self.path.iter().try_fold(value, |value, key| value.get(key))?;
        fn_values::id_of(place)
    }
}

/// Where a place stands in the schema.
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
    fn a_typed_function_is_found_where_it_stands() {
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
    fn a_bad_schema_is_named_with_its_place() {
        let schema = json!({"properties": {"f": {"x-fn": {"output": {"type": 5}}}}});
        let error = FunctionParam::all_in(Some(&schema), SchemaSource::Operator).unwrap_err();
        assert!(error.path.starts_with("/properties/f/x-fn/output"), "{}", error.path);
    }
}

//! Values that JSON cannot represent, where a schema wants JSON: converted where there is one way to do it, and named as the
//! script knows them otherwise.

use serde_json::{Map, Value};

use crate::schema::{CheckError, Failure, Schema};

/// How often a converted value is checked again: what is inside of a converted one may need it too.
const ROUNDS_MAX: usize = 4;

/// The value with `Date`, `Set` and `Map` converted where the schema did not accept them; `None` if that does not help.
pub(super) fn convert(value: &Value, failures: &[Failure], schema: &Schema) -> Option<Value> {
    let mut converted = value.clone();
    let mut failures = failures.to_vec();
    for _ in 0..ROUNDS_MAX {
        let mut is_changed = false;
        for failure in &failures {
            let path = place_of_tag(&converted, &failure.path);
            if let Some(target) = path.and_then(|path| converted.pointer_mut(&path))
                && let Some(plain) = to_json(target, &failure.message)
            {
                *target = plain;
                is_changed = true;
            }
        }
        if !is_changed {
            return None;
        }
        failures = match schema.check(&converted) {
            Ok(()) => return Some(converted),
            Err(CheckError::Invalid(failures)) => failures,
            Err(CheckError::TooCostly) => return None,
        };
    }
    None
}

/// The failure in words of JavaScript, if it is about a value that has a tag.
pub(super) fn explain(value: &Value, failure: &Failure) -> Failure {
    let tagged =
        place_of_tag(value, &failure.path).and_then(|path| Some((tag_of(value.pointer(&path)?)?, path)));
    let Some(((tag, _), path)) = tagged else { return failure.clone() };
    let (class, advice) = match tag {
        "$date" if failure.message.contains("number") || failure.message.contains("integer") => {
            ("a Date", ": pass date.getTime()")
        }
        "$date" => ("a Date", ": pass date.toISOString()"),
        "$map" => ("a Map", ": pass Object.fromEntries(map) or [...map]"),
        "$set" => ("a Set", ": pass [...set]"),
        "$bytes" => ("bytes", ": pass a string"),
        "$bigint" => ("a bigint", ": pass Number(value) or String(value)"),
        "$number" => ("NaN, an infinity or -0", ": JSON has no such number"),
        "$error" => ("an Error", ": pass error.message"),
        "$undefined" => ("undefined", ""),
        _ => ("a function", ""),
    };
    let expected = match failure.message.split_once(", got ") {
        Some((expected, _)) => expected.to_owned(),
        None => "expected a plain object".to_owned(),
    };
    Failure { path, message: format!("{expected}, got {class}{advice}") }
}

/// The place of the tagged value that a failure is about: at the failure, or around it.
fn place_of_tag(value: &Value, path: &str) -> Option<String> {
    let mut path = path;
    loop {
        if value.pointer(path).and_then(tag_of).is_some() {
            return Some(path.to_owned());
        }
        path = path.get(..path.rfind('/')?)?;
    }
}

fn tag_of(value: &Value) -> Option<(&str, &Value)> {
    let fields = value.as_object()?;
    let (key, payload) = fields.iter().next()?;
    let is_tag = match key.as_str() {
        "$fn" => true,
        "$date" | "$map" | "$set" | "$bytes" | "$bigint" | "$number" | "$error" | "$undefined" => {
            fields.len() == 1
        }
        _ => false,
    };
    is_tag.then_some((key.as_str(), payload))
}

/// The form that the schema asks for, by what it says it expected.
fn to_json(value: &Value, expected: &str) -> Option<Value> {
    let (tag, payload) = tag_of(value)?;
    match tag {
        "$date" if expected.contains("string") || expected.contains("date-time") => Some(payload.clone()),
        "$set" => Some(payload.clone()),
        "$map" if expected.contains("expected array") => Some(payload.clone()),
        "$map" => {
            let mut fields = Map::new();
            for pair in payload.as_array()? {
                let [Value::String(key), item] = pair.as_array()?.as_slice() else { return None };
                fields.insert(key.clone(), item.clone());
            }
            Some(Value::Object(fields))
        }
        _ => None,
    }
}

//! The configuration of a package: filled from the environment, then checked against the package's schemas.
//!
//! Secrets stay out of declaration files: a string says `${NAME}`, and the environment says what that is. What may be
//! left out there says `${NAME:-otherwise}`. The schema sees the filled value, because that is what the handlers get.

use serde_json::{Map, Value};

use super::Environment;
use super::problems::{Problems, member};
use crate::schema::{CheckError, Schema, SchemaSource};

/// The configuration ready for the handlers; `None` when there is something wrong with it.
pub(super) fn checked<'a>(
    stated: Option<&Value>,
    schemas: impl Iterator<Item = &'a Value>,
    env: &Environment,
    problems: &mut Problems,
) -> Option<Value> {
    let before = problems.count();
    let config = match stated {
        Some(stated) => filled(stated, "/config", env, problems),
        None => Value::Object(Map::new()),
    };
    for schema in schemas {
        match Schema::compile(schema, SchemaSource::Operator) {
            Ok(schema) => {
                for failure in schema.check(&config).err().map(CheckError::into_failures).unwrap_or_default()
                {
                    problems.add(format!("/config{}", failure.path), failure.message);
                }
            }
            Err(error) => problems.add(format!("/configSchema{}", error.path), error.message),
        }
    }
    (problems.count() == before).then_some(config)
}

fn filled(value: &Value, path: &str, env: &Environment, problems: &mut Problems) -> Value {
    match value {
        Value::String(text) => Value::String(filled_text(text, path, env, problems)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(at, item)| filled(item, &format!("{path}/{at}"), env, problems))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| (key.clone(), filled(field, &member(path, key), env, problems)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Values are not filled again: a secret may contain `${`.
fn filled_text(text: &str, path: &str, env: &Environment, problems: &mut Problems) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            problems.add(path, "`${` has no `}`");
            return out;
        };
        let (name, otherwise) = match name.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (name, None),
        };
        // As in a shell, an empty value counts as absent where there is a default.
        let stated =
            env.get(name).map(String::as_str).filter(|value| otherwise.is_none() || !value.is_empty());
        match stated.or(otherwise) {
            Some(value) => out.push_str(value),
            None => problems.add(path, format!("the environment has no `{name}`")),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;

    fn check(stated: &Value, schema: &Value) -> Result<Value, Vec<(String, String)>> {
        let env = Environment::from(
            [("TOKEN", "s3${X}"), ("N", "7"), ("EMPTY", "")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let mut problems = Problems::of(Path::new("a.json"));
        let config = checked(Some(stated), std::iter::once(schema), &env, &mut problems);
        config.ok_or_else(|| {
            problems.into_vec().into_iter().map(|problem| (problem.path, problem.message)).collect()
        })
    }

    #[test]
    fn names_are_filled_at_any_depth_and_only_once() {
        let stated = json!({"a": ["x ${TOKEN} ${N}", 1], "b": {"c": "$N {N}"}});
        assert_eq!(check(&stated, &json!(true)), Ok(json!({"a": ["x s3${X} 7", 1], "b": {"c": "$N {N}"}})));
    }

    #[test]
    fn default_replaces_a_missing_or_empty_variable() {
        let stated = json!([
            "${N:-8}",
            "${NOPE:-http://a:1/}x",
            "${NOPE:-}",
            "${EMPTY:-e}",
            "${EMPTY}",
            "${NOPE:-a:-b}"
        ]);
        assert_eq!(check(&stated, &json!(true)), Ok(json!(["7", "http://a:1/x", "", "e", "", "a:-b"])));
        let problems = check(&json!("${:-x} ${NOPE-x}"), &json!(true)).unwrap_err();
        assert_eq!(problems[0].1, "the environment has no `NOPE-x`");
    }

    #[test]
    fn every_missing_variable_is_listed_with_its_place() {
        let problems = check(&json!({"a/b": ["${NOPE}"], "c": "${N"}), &json!(true)).unwrap_err();
        let expected =
            [("/config/a~1b/0", "the environment has no `NOPE`"), ("/config/c", "`${` has no `}`")];
        assert_eq!(problems, expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
    }

    #[test]
    fn schema_checks_the_filled_value() {
        let schema = json!({"properties": {"n": {"pattern": "^[0-9]+$"}}, "additionalProperties": false});
        assert!(check(&json!({"n": "${N}"}), &schema).is_ok());
        let problems = check(&json!({"n": "${TOKEN}"}), &schema).unwrap_err();
        assert_eq!(problems[0].0, "/config/n");
        assert_eq!(check(&json!({"n": "1"}), &json!({"type": 5})).unwrap_err()[0].0, "/configSchema/type");
    }
}

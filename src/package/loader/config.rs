//! The configuration of a package: filled from the environment, then checked against the package's schemas.
//!
//! Secrets stay out of declaration files: a string says `${NAME}`, and the environment says what that is. What may be
//! left out there says `${NAME:-otherwise}`. The schema sees the filled value, because that is what the handlers get.

use serde_json::{Map, Value};

use super::Environment;
use super::problems::{Problems, member};
use crate::package::Secrets;
use crate::schema::{CheckError, Schema, SchemaSource};

/// A configuration without its gaps.
pub(super) struct FilledConfig {
    pub(super) value: Value,
    /// What came from the environment.
    pub(super) secrets: Secrets,
}

/// The configuration ready for the handlers; `None` when there is something wrong with it. It stands at `place` of the
/// file.
pub(super) fn checked<'a>(
    stated: Option<&Value>,
    place: &str,
    schemas: impl Iterator<Item = &'a Value>,
    env: &Environment,
    problems: &mut Problems,
) -> Option<FilledConfig> {
    let before = problems.count();
    let mut filler = Filler { env, secrets: Secrets::default(), problems };
    let config = match stated {
        Some(stated) => filler.fill(stated, place),
        None => Value::Object(Map::new()),
    };
    let secrets = filler.secrets;
    for schema in schemas {
        match Schema::compile(schema, SchemaSource::Operator) {
            Ok(schema) => {
                for failure in schema.check(&config).err().map(CheckError::into_failures).unwrap_or_default()
                {
                    problems.add(format!("{place}{}", failure.path), secrets.redact(&failure.message));
                }
            }
            Err(error) => problems.add(format!("/configSchema{}", error.path), error.message),
        }
    }
    (problems.count() == before).then_some(FilledConfig { value: config, secrets })
}

/// Fills the strings of a value.
struct Filler<'a> {
    env: &'a Environment,
    secrets: Secrets,
    problems: &'a mut Problems,
}

impl Filler<'_> {
    fn fill(&mut self, value: &Value, path: &str) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill_text(text, path)),
            Value::Array(items) => {
                items.iter().enumerate().map(|(at, item)| self.fill(item, &format!("{path}/{at}"))).collect()
            }
            Value::Object(fields) => fields
                .iter()
                .map(|(key, field)| (key.clone(), self.fill(field, &member(path, key))))
                .collect::<Map<_, _>>()
                .into(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Values are not filled again: a secret may contain `${`.
    fn fill_text(&mut self, text: &str, path: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                self.problems.add(path, "`${` has no `}`");
                return out;
            };
            let (name, otherwise) = match name.split_once(":-") {
                Some((name, otherwise)) => (name, Some(otherwise)),
                None => (name, None),
            };
            // Some programs write their `mcp.json` so.
            let name = name.strip_prefix("env:").unwrap_or(name);
            // As in a shell, an empty value counts as absent where there is a default.
            let is_usable = |value: &&String| otherwise.is_none() || !value.is_empty();
            match (self.env.get(name).filter(is_usable), otherwise) {
                (Some(value), _) => {
                    self.secrets.add(name, value);
                    out.push_str(value);
                }
                (None, Some(otherwise)) => out.push_str(otherwise),
                (None, None) => self.problems.add(path, format!("the environment has no `{name}`")),
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }
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
        let config = checked(Some(stated), "/config", std::iter::once(schema), &env, &mut problems);
        config.map(|config| config.value).ok_or_else(|| {
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
            "${NOPE:-a:-b}",
            "${env:N}"
        ]);
        assert_eq!(check(&stated, &json!(true)), Ok(json!(["7", "http://a:1/x", "", "e", "", "a:-b", "7"])));
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

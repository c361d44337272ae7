//! `SCOMP_*` variables as a layer over the settings file.
//!
//! The defaults themselves say which keys there are and of which type, so that a new setting can be set from the
//! environment without a line here: `limits.cpu_ms_max` is `SCOMP_LIMITS_CPU_MS_MAX`.

use serde::Deserialize;
use toml::{Table, Value};

use super::{ConfigError, Settings};

/// What all our variables begin with.
const PREFIX: &str = "SCOMP_";

/// Settings without a default, which are therefore not in the template: all of them are texts.
const TEXTS_WITHOUT_DEFAULT: [&str; 1] = ["bindings"];

/// Lays the variables over `table`. An empty variable counts as absent.
pub(super) fn overlay(
    mut table: Table,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Settings, ConfigError> {
    let template = template();
    let mut settings = settings_of(&table, "")?;
    for (variable, text) in environment {
        let Some(name) = variable.strip_prefix(PREFIX).filter(|_| !text.is_empty()) else {
            continue;
        };
        let Some(place) = find(&template, name) else {
            continue;
        };
        let place = place.map_err(|message| problem(&variable, message))?;
        let value = read_as(place.example, &text).map_err(|message| problem(&variable, message))?;
        place.set(&mut table, value);
        settings = settings_of(&table, &variable)?;
    }
    Ok(settings)
}

/// Where a variable belongs, and what is there by default.
struct Place<'a> {
    table: Option<&'a str>,
    key: &'a str,
    example: &'a Value,
}

impl Place<'_> {
    fn set(&self, table: &mut Table, value: Value) {
        let target = match self.table {
            None => table,
            Some(name) => {
                let inner = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
                match inner {
                    Value::Table(inner) => inner,
                    // The file was read as settings before, so what should be a table is one.
                    _ => return,
                }
            }
        };
        target.insert(self.key.to_owned(), value);
    }
}

/// The setting that `name` (without the prefix) means; `None` if it is none of ours, as many variables are.
/// A name that begins like one of our tables is ours: then an unknown key is an error.
fn find<'a>(template: &'a Table, name: &str) -> Option<Result<Place<'a>, String>> {
    let name = name.to_ascii_lowercase();
    for (key, example) in template {
        let Value::Table(inner) = example else {
            if *key == name {
                return Some(Ok(Place { table: None, key, example }));
            }
            continue;
        };
        let Some(rest) = name.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('_')) else {
            continue;
        };
        return Some(match inner.get_key_value(rest) {
            Some((inner_key, example)) => Ok(Place { table: Some(key), key: inner_key, example }),
            None => Err(format!("there is no setting `{key}.{rest}`")),
        });
    }
    None
}

/// Every setting with a value of its type.
fn template() -> Table {
    let mut table = Table::try_from(Settings::default()).unwrap_or_default();
    for key in TEXTS_WITHOUT_DEFAULT {
        table.insert(key.to_owned(), Value::String(String::new()));
    }
    table
}

fn read_as(example: &Value, text: &str) -> Result<Value, String> {
    match example {
        Value::Integer(_) => {
            let digits = text.replace('_', "");
            let number = digits.parse().map_err(|_| format!("expected a whole number, got {text:?}"))?;
            Ok(Value::Integer(number))
        }
        Value::Float(_) => {
            let number = text.parse().map_err(|_| format!("expected a number, got {text:?}"))?;
            Ok(Value::Float(number))
        }
        Value::Boolean(_) => match text {
            "true" | "1" => Ok(Value::Boolean(true)),
            "false" | "0" => Ok(Value::Boolean(false)),
            _ => Err(format!("expected true or false, got {text:?}")),
        },
        Value::String(_) => Ok(Value::String(text.to_owned())),
        Value::Array(_) | Value::Table(_) | Value::Datetime(_) => {
            Err("this setting can only stand in the settings file".to_owned())
        }
    }
}

fn settings_of(table: &Table, variable: &str) -> Result<Settings, ConfigError> {
    Settings::deserialize(table.clone()).map_err(|error| problem(variable, error.message().to_owned()))
}

fn problem(variable: &str, message: String) -> ConfigError {
    ConfigError::Variable { variable: variable.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(variable: &str, text: &str) -> Result<Settings, ConfigError> {
        overlay(Table::new(), [(variable.to_owned(), text.to_owned())])
    }

    #[test]
    fn every_limit_and_every_session_setting_has_a_variable() {
        let template = template();
        for table in ["limits", "sessions"] {
            let keys = template.get(table).and_then(Value::as_table).unwrap();
            assert!(!keys.is_empty());
            for key in keys.keys() {
                let variable = format!("SCOMP_{table}_{key}").to_ascii_uppercase();
                let (text, value) = match &keys[key] {
                    Value::Boolean(flag) => ((!flag).to_string(), Value::Boolean(!flag)),
                    _ => ("12_345".to_owned(), Value::Integer(12_345)),
                };
                let settings = Table::try_from(load(&variable, &text).unwrap()).unwrap();
                assert_eq!(settings[table][key], value, "{variable}");
            }
        }
    }

    #[test]
    fn the_other_settings_are_read_by_their_type() {
        assert_eq!(load("SCOMP_LISTEN", "0.0.0.0:1").unwrap().listen, "0.0.0.0:1");
        assert_eq!(load("SCOMP_BINDINGS", "b").unwrap().bindings, Some("b".into()));
        assert!(load("SCOMP_STDIO", "true").unwrap().stdio);
        assert_eq!(load("SCOMP_LOG_FORMAT", "json").unwrap().log.format, crate::config::LogFormat::Json);
    }

    #[test]
    fn an_unknown_limit_names_the_variable() {
        let message = load("SCOMP_LIMITS_CPU", "1").unwrap_err().to_string();
        assert_eq!(message, "environment variable SCOMP_LIMITS_CPU: there is no setting `limits.cpu`");
    }

    #[test]
    fn a_value_that_does_not_fit_names_the_variable() {
        for (variable, text) in [
            ("SCOMP_LIMITS_CPU_MS_MAX", "soon"),
            ("SCOMP_LIMITS_CPU_MS_MAX", "-1"),
            ("SCOMP_STDIO", "maybe"),
            ("SCOMP_LOG_FORMAT", "xml"),
        ] {
            let message = load(variable, text).unwrap_err().to_string();
            assert!(message.contains(variable), "{message}");
        }
    }

    #[test]
    fn other_variables_are_left_alone() {
        for variable in ["SCOMP_URL", "SCOMP_LOG", "SCOMP_CONFIG", "PATH"] {
            assert_eq!(load(variable, "x").unwrap(), Settings::default());
        }
        assert_eq!(load("SCOMP_LIMITS_CPU_MS_MAX", "").unwrap(), Settings::default());
    }
}

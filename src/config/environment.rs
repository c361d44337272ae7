//! `SCOMP_*` variables as a layer over the settings file.
//!
//! The defaults define which keys there are and of which type, so that a new setting can be set from the
//! environment without a line here: `limits.cpu_ms_max` is `SCOMP_LIMITS_CPU_MS_MAX`.

use std::path::PathBuf;

use serde::Deserialize;
use toml::{Table, Value};

use super::units::Unit;
use super::{ConfigError, Settings};
use crate::quota::Quotas;
use crate::server::settings::{AuditSettings, StateSettings, TlsSettings};

/// Prefix of all variables that are read here.
const PREFIX: &str = "SCOMP_";

/// Overrides keys of `table` by variables. An empty variable counts as absent.
pub(super) fn overlay(
    mut table: Table,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Settings, ConfigError> {
    let template = template();
    let mut last = String::new();
    for (variable, text) in environment {
        let Some(name) = variable.strip_prefix(PREFIX).filter(|_| !text.is_empty()) else {
            continue;
        };
        let Some(place) = find(&template, name) else {
            continue;
        };
        let place = place.map_err(|message| problem(&variable, message))?;
        let value =
            read_as(place.key, place.example, &text).map_err(|message| problem(&variable, message))?;
        place.set(&mut table, value);
        // Some settings belong together, such as a certificate and its key: only those of other tables are checked one by one.
        if place.table != Some("tls") {
            settings_of(&table, &variable)?;
        }
        last = variable;
    }
    settings_of(&table, &last)
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

/// The setting that `name` (without the prefix) means; `None` if it is not a setting, as many variables are not.
/// A name that begins like a table of settings must be one: then an unknown key is an error.
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
            None => Err(format!("unknown setting `{key}.{rest}`")),
        });
    }
    None
}

/// Every setting with a value of its type.
fn template() -> Table {
    let default = Settings::default();
    let complete = Settings {
        bindings: Some(PathBuf::new()),
        tls: Some(TlsSettings { cert: PathBuf::new(), key: PathBuf::new() }),
        state: StateSettings {
            dir: Some(PathBuf::new()),
            key_file: Some(PathBuf::new()),
            ..default.state.clone()
        },
        audit: AuditSettings { path: Some(PathBuf::new()), ..default.audit.clone() },
        quotas: Quotas {
            sessions_max: Some(0),
            queued_evals_max: Some(0),
            cpu_seconds_per_minute: Some(0.0),
            memory_bytes_max: Some(0),
            messages_per_second: Some(0.0),
            messages_burst: Some(0.0),
        },
        ..default
    };
    Table::try_from(complete).unwrap_or_default()
}

fn read_as(key: &str, example: &Value, text: &str) -> Result<Value, String> {
    match example {
        Value::Integer(_) => {
            if let Ok(number) = text.replace('_', "").parse() {
                return Ok(Value::Integer(number));
            }
            let number = match Unit::of_key(key) {
                Some(unit) => unit.parse(text)?,
                None => return Err(format!("expected a whole number, got {text:?}")),
            };
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
            Err("this setting can only be set in the settings file".to_owned())
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
    fn other_settings_are_read_by_their_type() {
        assert_eq!(load("SCOMP_LISTEN", "0.0.0.0:1").unwrap().listen, "0.0.0.0:1");
        assert_eq!(load("SCOMP_BINDINGS", "b").unwrap().bindings, Some("b".into()));
        assert!(load("SCOMP_STDIO", "true").unwrap().stdio);
        assert_eq!(load("SCOMP_LOG_FORMAT", "json").unwrap().log.format, crate::config::LogFormat::Json);
    }

    #[test]
    fn setting_without_default_has_a_variable() {
        let variables = [
            ("SCOMP_TLS_CERT", "cert.pem"),
            ("SCOMP_TLS_KEY", "key.pem"),
            ("SCOMP_AUDIT_PATH", "audit.jsonl"),
            ("SCOMP_QUOTAS_SESSIONS_MAX", "7"),
            ("SCOMP_QUOTAS_CPU_SECONDS_PER_MINUTE", "1.5"),
        ];
        let owned = variables.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let settings = overlay(Table::new(), owned).unwrap();
        assert_eq!(settings.tls.unwrap().key, PathBuf::from("key.pem"));
        assert_eq!(settings.audit.path, Some(PathBuf::from("audit.jsonl")));
        assert_eq!(settings.quotas.sessions_max, Some(7));
        assert_eq!(settings.quotas.cpu_seconds_per_minute, Some(1.5));
        assert!(load("SCOMP_TLS_CERT", "cert.pem").unwrap_err().to_string().contains("SCOMP_TLS_CERT"));
    }

    #[test]
    fn unknown_limit_names_the_variable() {
        let message = load("SCOMP_LIMITS_CPU", "1").unwrap_err().to_string();
        assert_eq!(message, "environment variable SCOMP_LIMITS_CPU: unknown setting `limits.cpu`");
    }

    #[test]
    fn value_of_the_wrong_type_names_the_variable() {
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

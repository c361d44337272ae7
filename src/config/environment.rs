//! `SCOMP_*` variables as a layer over the settings file.
//!
//! The fields of the settings define which variables there are and of which type, so that a new setting can be set from
//! the environment without a line here: `limits.cpu_ms_max` is `SCOMP_LIMITS_CPU_MS_MAX`.

use crate::settings_file::{Field, Kind, Problem, Source, convert_text, join_key, unknown_name};

/// Prefix of all variables that are read here.
const PREFIX: &str = "SCOMP_";

/// Variables with a meaning of their own. The tests have further ones, with a prefix.
const OTHER_VARIABLES: [&str; 6] =
    ["SCOMP_CONFIG", "SCOMP_LOG", "SCOMP_TOKEN", "SCOMP_TOKENS_FILE", "SCOMP_URL", "SCOMP_SERVE"];

/// Prefix of variables for tests of this program.
const TEST_PREFIX: &str = "SCOMP_TEST_";

/// What a cluster sets for a service that is called `scomp` or so: parts of names that no setting has.
const SERVICE_LINK_PARTS: [&str; 3] = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"];

/// What the variables set.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// Each with the path of its key.
    pub(super) values: Vec<(String, Source, toml::Value)>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// The variable of a key; `None` where only a file can set it.
pub(super) fn variable_of(path: &str, kind: &Kind) -> Option<String> {
    let is_listed = path.contains('[');
    let is_settable = match kind {
        Kind::List(items) => !matches!(**items, Kind::Table(_) | Kind::List(_) | Kind::Map(_)),
        Kind::Table(_) | Kind::Map(_) | Kind::Unknown => false,
        Kind::Integer { .. } | Kind::Number | Kind::Boolean | Kind::Text | Kind::Path | Kind::Choice(_) => {
            true
        }
    };
    (is_settable && !is_listed).then(|| format!("{PREFIX}{}", path.replace('.', "_").to_ascii_uppercase()))
}

/// Reads the variables. An empty one counts as absent.
pub(super) fn read(fields: &[Field], environment: &[(String, String)]) -> Variables {
    let mut settable = Vec::new();
    collect(fields, "", &mut settable);
    let mut read = Variables::default();
    for (variable, text) in environment {
        if !variable.starts_with(PREFIX) || text.is_empty() || is_other(variable) {
            continue;
        }
        let source = Source::Variable(variable.clone());
        match settable.iter().find(|(name, _, _)| name == variable) {
            Some((_, path, field)) => match value_of(field, text) {
                Ok(value) => read.values.push((path.clone(), source, value)),
                Err(message) => read.problems.push(Problem::new(source, path.as_str(), message)),
            },
            None => {
                let message =
                    unknown_name("variable", variable, settable.iter().map(|(name, _, _)| name.as_str()));
                let problem = Problem::new(source, "", message);
                // A name that begins like a table of settings was meant as one of them.
                let is_meant = fields.iter().any(|field| {
                    let start = format!("{PREFIX}{}_", field.name.to_ascii_uppercase());
                    matches!(field.kind, Kind::Table(_)) && variable.starts_with(&start)
                });
                if is_meant { read.problems.push(problem) } else { read.warnings.push(problem) }
            }
        }
    }
    read
}

fn is_other(variable: &str) -> bool {
    OTHER_VARIABLES.contains(&variable)
        || variable.starts_with(TEST_PREFIX)
        || variable.ends_with("_PORT")
        || SERVICE_LINK_PARTS.iter().any(|part| variable.contains(part))
}

fn collect<'a>(fields: &'a [Field], table: &str, settable: &mut Vec<(String, String, &'a Field)>) {
    for field in fields {
        let path = join_key(table, &field.name);
        match &field.kind {
            Kind::Table(fields) => collect(fields, &path, settable),
            kind => {
                if let Some(variable) = variable_of(&path, kind) {
                    settable.push((variable, path, field));
                }
            }
        }
    }
}

/// A list of texts is separated by commas.
fn value_of(field: &Field, text: &str) -> Result<toml::Value, String> {
    match &field.kind {
        Kind::List(items) => {
            let items = text.split(',').map(|item| convert_text(items, None, item.trim()));
            Ok(toml::Value::Array(items.collect::<Result<_, _>>()?))
        }
        kind => convert_text(kind, field.unit(), text),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use toml::{Table, Value};

    use super::super::{ConfigError, LogFormat, Overrides, Settings, fields};
    use super::*;

    fn load_all(variables: &[(&str, &str)]) -> Result<Settings, ConfigError> {
        let owned = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Settings::load(None, owned, Overrides::default())
    }

    fn load(variable: &str, text: &str) -> Result<Settings, ConfigError> {
        load_all(&[(variable, text)])
    }

    #[test]
    fn every_setting_but_tables_in_lists_has_a_variable() {
        let mut settable = Vec::new();
        let fields = fields();
        collect(&fields, "", &mut settable);
        assert!(settable.len() > 50, "{}", settable.len());
        for (variable, path, field) in settable {
            let text = match &field.kind {
                Kind::Integer { .. } => "2_000_000".to_owned(),
                Kind::Number => "1.5".to_owned(),
                Kind::Boolean => "1".to_owned(),
                Kind::Choice(words) => words.last().unwrap().clone(),
                _ => "text".to_owned(),
            };
            let read = read(&fields, &[(variable.clone(), text)]);
            assert!(read.problems.is_empty() && read.warnings.is_empty(), "{variable}: {read:?}");
            assert_eq!(read.values[0].0, path);
        }
    }

    #[test]
    fn variables_are_read_by_the_type_of_their_setting() {
        assert_eq!(load("SCOMP_LISTEN", "0.0.0.0:1").unwrap().listen, "0.0.0.0:1");
        assert_eq!(load("SCOMP_BINDINGS", "b").unwrap().bindings, Some("b".into()));
        assert!(load("SCOMP_STDIO", "true").unwrap().stdio);
        assert_eq!(load("SCOMP_LOG_FORMAT", "json").unwrap().log.format, LogFormat::Json);
        assert_eq!(load("SCOMP_LIMITS_CPU_MS_MAX", "7s").unwrap().limits.cpu_ms_max, 7_000);
        let origins =
            load("SCOMP_ORIGINS_ALLOW", "https://a.example, http://b.example:8080").unwrap().origins;
        assert_eq!(origins.allow, ["https://a.example", "http://b.example:8080"]);
    }

    #[test]
    fn setting_without_default_has_a_variable() {
        let settings = load_all(&[
            ("SCOMP_TLS_CERT", "cert.pem"),
            ("SCOMP_TLS_KEY", "key.pem"),
            ("SCOMP_AUDIT_PATH", "audit.jsonl"),
            ("SCOMP_QUOTAS_SESSIONS_MAX", "7"),
            ("SCOMP_QUOTAS_CPU_SECONDS_PER_MINUTE", "1.5"),
        ])
        .unwrap();
        assert_eq!(settings.tls.unwrap().key, PathBuf::from("key.pem"));
        assert_eq!(settings.audit.path, Some(PathBuf::from("audit.jsonl")));
        assert_eq!(settings.quotas.sessions_max, Some(7));
        assert_eq!(settings.quotas.cpu_seconds_per_minute, Some(1.5));
        let message = load("SCOMP_TLS_CERT", "cert.pem").unwrap_err().to_string();
        assert!(message.starts_with("environment variable SCOMP_TLS_CERT: tls.key: missing"), "{message}");
    }

    #[test]
    fn unknown_name_in_a_table_is_an_error() {
        let message = load("SCOMP_LIMITS_CPU_MAX", "1").unwrap_err().to_string();
        assert_eq!(
            message,
            "environment variable SCOMP_LIMITS_CPU_MAX: unknown variable; did you mean `SCOMP_LIMITS_CPU_MS_MAX`?"
        );
    }

    #[test]
    fn other_unknown_names_are_warnings() {
        let read = |name: &str| read(&fields(), &[(name.to_owned(), "x".to_owned())]);
        let warned = read("SCOMP_LISTN");
        assert!(warned.problems.is_empty() && warned.values.is_empty());
        let expected = "environment variable SCOMP_LISTN: unknown variable; did you mean `SCOMP_LISTEN`?";
        assert_eq!(warned.warnings[0].to_string(), expected);
        let of_a_cluster = ["SCOMP_SERVER_SERVICE_HOST", "SCOMP_PORT_7400_TCP", "SCOMP_SERVER_PORT"];
        for name in OTHER_VARIABLES.into_iter().chain(of_a_cluster).chain(["PATH", "SCOMP_TEST_X"]) {
            let read = read(name);
            assert!(read.warnings.is_empty() && read.problems.is_empty() && read.values.is_empty(), "{name}");
        }
        assert_eq!(load("SCOMP_LIMITS_CPU_MS_MAX", "").unwrap(), Settings::default());
    }

    #[test]
    fn value_of_the_wrong_type_names_the_variable() {
        for (variable, text) in [
            ("SCOMP_LIMITS_CPU_MS_MAX", "soon"),
            ("SCOMP_LIMITS_CPU_MS_MAX", "-1"),
            ("SCOMP_LIMITS_INVOKE_DEPTH_MAX", "4294967296"),
            ("SCOMP_STDIO", "maybe"),
            ("SCOMP_LOG_FORMAT", "xml"),
        ] {
            let message = load(variable, text).unwrap_err().to_string();
            assert!(message.contains(variable) && message.contains("expected"), "{message}");
        }
    }

    #[test]
    fn variables_of_settings_are_what_they_serialize_to() {
        let written = Table::try_from(load("SCOMP_LIMITS_FLOATING_CALLS", "false").unwrap()).unwrap();
        assert_eq!(written["limits"]["floating_calls"], Value::Boolean(false));
    }
}

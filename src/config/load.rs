//! Merges the layers of settings, and remembers where each one comes from.
//!
//! A key that is wrong is left out and listed; the rest is merged and checked all the same, so that one run shows every
//! problem.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize as _;
use toml::{Table, Value};

use super::{Overrides, Settings, check, environment, fields};
use crate::settings_file::{FileTable, Problem, Source, missing_keys, read_file};

/// What is wrong with the settings, all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(pub Vec<Problem>);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// The settings of all layers together.
#[derive(Debug)]
pub struct LoadedSettings {
    /// What is set. If there are problems: what remains without the keys that are wrong.
    pub settings: Settings,
    /// With which the server does not start.
    pub problems: Vec<Problem>,
    /// What has no effect, or perhaps not the one that was meant.
    pub warnings: Vec<Problem>,
    sources: BTreeMap<String, Source>,
}

impl LoadedSettings {
    /// Merges the layers: defaults, the file, the environment, the command line.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        overrides: Overrides,
    ) -> Self {
        let fields = fields();
        let environment: Vec<(String, String)> = environment.into_iter().collect();
        let FileTable { mut table, lines, mut problems } =
            file.map(|file| read_file(file, &fields)).unwrap_or_default();
        let place = |line| Source::File { file: file.unwrap_or(Path::new("")).to_owned(), line: Some(line) };
        let mut sources: BTreeMap<String, Source> =
            lines.into_iter().map(|(key, line)| (key, place(line))).collect();
        let variables = environment::read(&fields, &environment);
        problems.extend(variables.problems);
        for (key, source, value) in variables.values.into_iter().chain(overrides.into_values()) {
            set(&mut table, &key, value);
            sources.insert(key, source);
        }
        let missing = missing_keys(&table, &fields, "");
        let is_complete = missing.is_empty();
        let mut loaded =
            Self { settings: Settings::default(), problems, warnings: variables.warnings, sources };
        for (key, message) in missing {
            loaded.problem(key, message);
        }
        if is_complete {
            match Settings::deserialize(Value::Table(table)) {
                Ok(settings) => loaded.settings = settings,
                Err(error) => loaded.problem(String::new(), error.message().to_owned()),
            }
        }
        loaded.add_tokens(&environment);
        check::check(&mut loaded);
        loaded
    }

    /// Where a setting comes from.
    pub fn source(&self, key: &str) -> Source {
        let mut key = key;
        loop {
            if let Some(source) = self.sources.get(key) {
                return source.clone();
            }
            match key.rfind(['.', '[']) {
                Some(end) => key = key.get(..end).unwrap_or_default(),
                None => return Source::Default,
            }
        }
    }

    /// The settings, unless something is wrong with them.
    pub fn into_settings(self) -> Result<Settings, ConfigError> {
        if self.problems.is_empty() { Ok(self.settings) } else { Err(ConfigError(self.problems)) }
    }

    pub(super) fn problem(&mut self, key: String, message: String) {
        self.problems.push(Problem::new(self.source_near(&key), key, message));
    }

    pub(super) fn warning(&mut self, key: &str, message: String) {
        self.warnings.push(Problem::new(self.source_near(key), key, message));
    }

    /// Where a setting comes from, or, if it is missing, the one beside it.
    fn source_near(&self, key: &str) -> Source {
        let neighbour = || {
            let table = key.rsplit_once('.')?.0;
            let start = format!("{table}.");
            self.sources.iter().find(|(other, _)| other.starts_with(&start)).map(|(_, source)| source.clone())
        };
        match self.source(key) {
            Source::Default => neighbour().unwrap_or(Source::Default),
            source => source,
        }
    }

    /// The tokens of the environment, and the places of those of the file.
    fn add_tokens(&mut self, environment: &[(String, String)]) {
        let lookup = |name: &str| {
            environment.iter().find(|(variable, _)| variable == name).map(|(_, value)| value.clone())
        };
        let places: Vec<String> = (0..self.settings.auth.tokens.len())
            .map(|at| format!("auth.tokens[{at}]"))
            .map(|key| format!("{}: {key}", self.source(&key)))
            .collect();
        for (token, place) in self.settings.auth.tokens.iter_mut().zip(places) {
            token.place = place;
        }
        match std::mem::take(&mut self.settings.auth).with_environment(lookup) {
            Ok(auth) => self.settings.auth = auth,
            Err(error) => self.problem("auth".to_owned(), error.to_string()),
        }
    }
}

impl Overrides {
    fn into_values(self) -> impl Iterator<Item = (String, Source, Value)> {
        let path = |path: std::path::PathBuf| Value::String(path.to_string_lossy().into_owned());
        let files: Vec<Value> = self.mcp_files.into_iter().map(path).collect();
        let given = [
            ("listen", "--listen", self.listen.map(Value::String)),
            ("bindings", "--bindings", self.bindings.map(path)),
            ("mcp_files", "--mcp", (!files.is_empty()).then_some(Value::Array(files))),
            ("state.dir", "--state", self.state.map(path)),
            ("isolation", "--isolation", self.isolation.and_then(|value| Value::try_from(value).ok())),
            ("sandbox", "--sandbox", self.sandbox.and_then(|value| Value::try_from(value).ok())),
            ("stdio", "--stdio", self.stdio.then_some(Value::Boolean(true))),
        ];
        given.into_iter().filter_map(|(key, flag, value)| Some((key.to_owned(), Source::Flag(flag), value?)))
    }
}

/// Sets a key by its path.
fn set(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => drop(table.insert(key.to_owned(), value)),
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

//! Finding declaration files and reading one: strictly, since an unknown field is a typing error.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::problems::{Problems, member};
use crate::binding::{BindingLimits, DeclarationProblem};
use crate::protocol::declaration::Declaration;
use crate::protocol::declaration::type_name;

/// Longest declaration file.
/// Ten thousand bindings of a few hundred bytes fit; a data file that was put there by mistake is not read into memory.
const DECLARATION_FILE_BYTES_MAX: u64 = 4 << 20;

const FIELDS: [&str; 10] = [
    "package",
    "description",
    "bindings",
    "rust",
    "command",
    "mcp",
    "openapi",
    "env",
    "configSchema",
    "config",
];

/// Each says where the handlers are; a file has exactly one of them.
const SOURCES: [&str; 4] = ["rust", "command", "mcp", "openapi"];

/// What a folder holds, sorted by path so that every start sees the same order.
#[derive(Default)]
pub(super) struct Found {
    pub(super) declarations: Vec<PathBuf>,
    pub(super) services: Vec<PathBuf>,
}

/// A declaration file.
pub(super) struct PackageFile {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) source: Source,
    pub(super) bindings: Option<Vec<Declared>>,
    pub(super) env: Vec<String>,
    pub(super) config_schema: Option<Value>,
    pub(super) config: Option<Value>,
    /// Where the package stands in a file that has several.
    pub(super) place: Option<String>,
}

impl PackageFile {
    /// Where the file names the package.
    pub(super) fn name_place(&self) -> &str {
        self.place.as_deref().unwrap_or("/package")
    }

    /// Where the configuration is.
    pub(super) fn config_place(&self) -> String {
        match (&self.place, &self.source) {
            (Some(place), _) => place.clone(),
            (None, Source::Connector(field)) => format!("/{field}"),
            (None, Source::Rust(_) | Source::Command(_)) => "/config".to_owned(),
        }
    }
}

/// Where the handlers are.
pub(super) enum Source {
    /// A package built into the server.
    Rust(String),
    /// An executable and its arguments; never empty.
    Command(Vec<String>),
    /// A server or a document of another kind. The built-in package of this name makes bindings of what it offers, and
    /// the field of this name is its configuration.
    Connector(&'static str),
}

/// One binding of a file.
#[derive(Clone)]
pub(super) struct Declared {
    pub(super) declaration: Declaration,
    pub(super) limits: BindingLimits,
    /// Its JSON Pointer in the file.
    pub(super) path: String,
}

impl Declared {
    /// A binding that is not declared in the file; problems with it are reported at `path`.
    pub(super) fn bare(declaration: Declaration, path: &str) -> Self {
        Self { declaration, limits: BindingLimits::default(), path: path.to_owned() }
    }
}

/// Looks for `DIR/*.json` (but for the files of npm), `DIR/*/declaration.json` and `DIR/services/*.{js,ts}`.
pub(super) fn find(dir: &Path) -> Result<Found, DeclarationProblem> {
    let unreadable = |path: &Path, error: &io::Error| DeclarationProblem {
        origin: path.display().to_string(),
        path: String::new(),
        message: format!("cannot be read: {error}"),
    };
    let list = |path: &Path| -> io::Result<Vec<PathBuf>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
    };
    let mut found = Found::default();
    for path in list(dir).map_err(|error| unreadable(dir, &error))? {
        let declaration = path.join("declaration.json");
        if declaration.is_file() {
            found.declarations.push(declaration);
        } else if has_extension(&path, &["json"]) && !is_of_npm(&path) && path.is_file() {
            found.declarations.push(path);
        }
    }
    let services = dir.join("services");
    if services.is_dir() {
        found.services = list(&services).map_err(|error| unreadable(&services, &error))?;
        found.services.retain(|path| has_extension(path, &["js", "ts"]) && path.is_file());
    }
    found.declarations.sort();
    found.services.sort();
    Ok(found)
}

/// Bindings in JavaScript bring these along, and none of them can be a declaration.
fn is_of_npm(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| ["package.json", "package-lock.json", "tsconfig.json"].contains(&name))
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().and_then(|found| found.to_str()).is_some_and(|found| extensions.contains(&found))
}

/// Reads a file; what is wrong with it is added to `problems`.
pub(super) fn read(path: &Path, problems: &mut Problems) -> Option<PackageFile> {
    match read_text(path) {
        Ok(text) => parse(&text, problems),
        Err(error) => {
            problems.add("", format!("cannot be read: {error}"));
            None
        }
    }
}

pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = fs::File::open(path)?.take(DECLARATION_FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > DECLARATION_FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {DECLARATION_FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Reads the text of a file.
pub(super) fn parse(text: &str, problems: &mut Problems) -> Option<PackageFile> {
    let before = problems.count();
    let fields = match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(other) => {
            problems.add("", format!("expected object, got {}", type_name(&other)));
            return None;
        }
        Err(error) => {
            problems.add("", format!("not JSON: {error}"));
            return None;
        }
    };
    for unknown in fields.keys().filter(|key| !FIELDS.contains(&key.as_str())) {
        problems.add(member("", unknown), format!("unknown field; known are {}", FIELDS.join(", ")));
    }
    let name = text_field(&fields, "package", problems);
    if name.is_none() && !fields.contains_key("package") {
        problems.add("/package", "missing; every package has a name");
    }
    let file = PackageFile {
        name: name.unwrap_or_default(),
        description: text_field(&fields, "description", problems),
        bindings: bindings(&fields, problems),
        env: texts_field(&fields, "env", problems).unwrap_or_default(),
        config_schema: fields.get("configSchema").cloned(),
        config: fields.get("config").cloned(),
        source: source(&fields, problems)?,
        place: None,
    };
    let file = match file.source {
        Source::Connector(field) => configured_by(field, &fields, file, problems),
        Source::Rust(_) | Source::Command(_) => file,
    };
    (problems.count() == before).then_some(file)
}

/// A connector has its configuration in the field that names it, and its bindings from the other side.
fn configured_by(
    field: &'static str,
    fields: &Map<String, Value>,
    file: PackageFile,
    problems: &mut Problems,
) -> PackageFile {
    for other in ["bindings", "env", "config", "configSchema"] {
        if fields.contains_key(other) {
            problems.add(member("", other), format!("unexpected beside `{field}`"));
        }
    }
    PackageFile { config: fields.get(field).cloned(), ..file }
}

fn source(fields: &Map<String, Value>, problems: &mut Problems) -> Option<Source> {
    let stated: Vec<&'static str> =
        SOURCES.into_iter().filter(|source| fields.contains_key(*source)).collect();
    match stated.as_slice() {
        ["rust"] => text_field(fields, "rust", problems).map(Source::Rust),
        ["command"] => {
            let words = texts_field(fields, "command", problems)?;
            if words.is_empty() {
                problems.add("/command", "expected an executable and its arguments, got nothing");
                return None;
            }
            Some(Source::Command(words))
        }
        [connector] => Some(Source::Connector(connector)),
        [] | [_, _, ..] => {
            problems.add("", "expected exactly one of `rust`, `command`, `mcp` and `openapi`");
            None
        }
    }
}

fn bindings(fields: &Map<String, Value>, problems: &mut Problems) -> Option<Vec<Declared>> {
    let listed = match fields.get("bindings")? {
        Value::Array(listed) => listed,
        other => {
            problems.add("/bindings", format!("expected array, got {}", type_name(other)));
            return None;
        }
    };
    let mut declared = Vec::with_capacity(listed.len());
    for (at, binding) in listed.iter().enumerate() {
        let path = format!("/bindings/{at}");
        let limits = limits(binding, &path, problems);
        match Declaration::from_file(binding) {
            Ok(declaration) => declared.push(Declared { declaration, limits, path }),
            Err(error) => problems.add(format!("{path}{}", error.path), error.message),
        }
    }
    Some(declared)
}

fn limits(binding: &Value, path: &str, problems: &mut Problems) -> BindingLimits {
    let Some(limits) = binding.get("limits") else {
        return BindingLimits::default();
    };
    let read: BindingLimits = serde_json::from_value(limits.clone()).unwrap_or_else(|error| {
        problems.add(format!("{path}/limits"), error.to_string());
        BindingLimits::default()
    });
    for (field, is_zero) in
        [("timeoutMs", read.timeout_ms == Some(0)), ("concurrency", read.concurrency == Some(0))]
    {
        if is_zero {
            problems.add(format!("{path}/limits/{field}"), "expected a positive integer, got 0");
        }
    }
    read
}

fn text_field(fields: &Map<String, Value>, key: &str, problems: &mut Problems) -> Option<String> {
    match fields.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::String(_) => {
            problems.add(member("", key), "expected a non-empty string, got \"\"");
            None
        }
        other => {
            problems.add(member("", key), format!("expected string, got {}", type_name(other)));
            None
        }
    }
}

fn texts_field(fields: &Map<String, Value>, key: &str, problems: &mut Problems) -> Option<Vec<String>> {
    let path = member("", key);
    let listed = match fields.get(key)? {
        Value::Array(listed) => listed,
        other => {
            problems.add(path, format!("expected array of strings, got {}", type_name(other)));
            return None;
        }
    };
    let mut texts = Vec::with_capacity(listed.len());
    for (at, item) in listed.iter().enumerate() {
        match item {
            // The operating system takes neither as a name or an argument.
            Value::String(text) if !text.contains('\0') => texts.push(text.clone()),
            Value::String(_) => problems.add(format!("{path}/{at}"), "expected text without NUL"),
            other => {
                problems.add(format!("{path}/{at}"), format!("expected string, got {}", type_name(other)))
            }
        }
    }
    Some(texts)
}

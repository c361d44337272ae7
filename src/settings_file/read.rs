//! Reads a TOML file by the keys that its type has, and lists everything that is wrong with it.
//!
//! What is right is kept although other keys are wrong, so that later checks find their problems in the same run.
//! Durations and sizes become numbers, and paths are joined to the folder of the file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::{Field, Kind, Problem, Source, Unit, join_key};
use crate::catalog::search::closest;

/// Longest settings file that is read: a person writes it, so more is some other file by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Problems that are listed for one file. More are not mended from one list.
const PROBLEMS_MAX: usize = 100;

/// Names that are listed where none is like the one that was written.
const EXPECTED_LISTED_MAX: usize = 12;

/// What was read from a file.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    /// The keys that are right.
    pub(crate) table: Table,
    /// The line of every key and table, by its path.
    pub(crate) lines: BTreeMap<String, usize>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a file that has these keys.
pub(crate) fn read_file(file: &Path, fields: &[Field]) -> FileTable {
    match read_text(file) {
        Ok(text) => read(file, &text, fields),
        Err(message) => {
            let source = Source::File { file: file.to_owned(), line: None };
            FileTable { problems: vec![Problem::new(source, "", message)], ..FileTable::default() }
        }
    }
}

fn read_text(file: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::InvalidData => "expected a text in UTF-8".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    let found = std::fs::metadata(file).map_err(cannot)?;
    if found.is_dir() {
        return Err("expected a settings file, got a folder".to_owned());
    }
    if found.len() > FILE_BYTES_MAX {
        return Err(format!(
            "expected a settings file of at most {FILE_BYTES_MAX} bytes, got {}",
            found.len()
        ));
    }
    std::fs::read_to_string(file).map_err(cannot)
}

fn read(file: &Path, text: &str, fields: &[Field]) -> FileTable {
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = Reader { file, folder, text, read: FileTable::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.problem(at, "", format!("not valid TOML: {}", error.message()));
    }
    // After an error of syntax the rest is a guess: its keys may belong to other tables.
    if reader.read.problems.is_empty() {
        let table = reader.table(table.get_ref(), fields, "");
        reader.read.table = table;
    }
    reader.read.problems.sort_by_key(|problem| match problem.source {
        Source::File { line, .. } => line,
        _ => None,
    });
    reader.read
}

struct Reader<'a> {
    file: &'a Path,
    folder: PathBuf,
    text: &'a str,
    read: FileTable,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, fields: &[Field], path: &str) -> Table {
        let mut read = Table::new();
        for (key, value) in table {
            let (at, name) = (key.span().start, key.get_ref());
            let place = join_key(path, name);
            self.read.lines.insert(place.clone(), self.line(at));
            match fields.iter().find(|field| field.name == **name) {
                Some(field) => {
                    if let Some(value) = self.value(value, &field.kind, field.unit(), &place) {
                        read.insert(field.name.clone(), value);
                    }
                }
                None => {
                    let names = fields.iter().map(|field| field.name.as_str());
                    self.problem(at, &place, unknown_name("setting", name, names));
                }
            }
        }
        read
    }

    fn value(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        kind: &Kind,
        unit: Option<Unit>,
        place: &str,
    ) -> Option<Value> {
        let at = value.span().start;
        match (kind, value.get_ref()) {
            (Kind::Table(fields), DeValue::Table(table)) => {
                Some(Value::Table(self.table(table, fields, place)))
            }
            (Kind::Map(kind), DeValue::Table(table)) => {
                let mut read = Table::new();
                for (key, value) in table {
                    let place = join_key(place, key.get_ref());
                    self.read.lines.insert(place.clone(), self.line(key.span().start));
                    if let Some(value) = self.value(value, kind, None, &place) {
                        read.insert(key.get_ref().to_string(), value);
                    }
                }
                Some(Value::Table(read))
            }
            (Kind::List(kind), DeValue::Array(items)) => {
                let read = items.iter().enumerate().filter_map(|(index, item)| {
                    let place = format!("{place}[{index}]");
                    self.read.lines.insert(place.clone(), self.line(item.span().start));
                    self.value(item, kind, None, &place)
                });
                Some(Value::Array(read.collect()))
            }
            (kind, found) => match convert(kind, unit, found) {
                Ok(Value::String(path)) if *kind == Kind::Path => {
                    Some(Value::String(self.folder.join(path).to_string_lossy().into_owned()))
                }
                Ok(value) => Some(value),
                Err(message) => {
                    self.problem(at, place, message);
                    None
                }
            },
        }
    }

    fn line(&self, at: usize) -> usize {
        self.text.get(..at).unwrap_or(self.text).matches('\n').count() + 1
    }

    fn problem(&mut self, at: usize, key: &str, message: String) {
        if self.read.problems.len() < PROBLEMS_MAX {
            let source = Source::File { file: self.file.to_owned(), line: Some(self.line(at)) };
            self.read.problems.push(Problem::new(source, key, message));
        }
    }
}

/// Converts a value of a file that is not a table or a list.
fn convert(kind: &Kind, unit: Option<Unit>, found: &DeValue<'_>) -> Result<Value, String> {
    let wrong = || Err(format!("expected {}, got {}", describe(kind, unit), show(found)));
    match (kind, found) {
        (Kind::Integer { .. }, DeValue::Integer(number)) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            match parsed.ok().filter(|number| in_range(kind, *number)) {
                Some(number) => Ok(Value::Integer(number)),
                None => wrong(),
            }
        }
        (Kind::Integer { .. }, DeValue::String(text)) => match unit {
            Some(unit) => unit.parse(text).map(Value::Integer),
            None => wrong(),
        },
        (Kind::Number, DeValue::Integer(number)) => match number.as_str().parse() {
            Ok(number) => Ok(Value::Float(number)),
            Err(_) => wrong(),
        },
        (Kind::Number, DeValue::Float(number)) => match number.as_str().parse() {
            Ok(number) => Ok(Value::Float(number)),
            Err(_) => wrong(),
        },
        (Kind::Boolean, DeValue::Boolean(flag)) => Ok(Value::Boolean(*flag)),
        (Kind::Text | Kind::Path | Kind::Choice(_), DeValue::String(text)) => convert_text(kind, None, text),
        _ => wrong(),
    }
}

/// Converts the text of a variable; an error says what was expected.
pub(crate) fn convert_text(kind: &Kind, unit: Option<Unit>, text: &str) -> Result<Value, String> {
    let wrong = || Err(format!("expected {}, got {text:?}", describe(kind, unit)));
    match kind {
        Kind::Integer { .. } => {
            let parsed = match (text.replace('_', "").parse::<i64>(), unit) {
                (Ok(number), _) => number,
                (Err(_), Some(unit)) => unit.parse(text)?,
                (Err(_), None) => return wrong(),
            };
            if in_range(kind, parsed) { Ok(Value::Integer(parsed)) } else { wrong() }
        }
        Kind::Number => text.parse().map(Value::Float).or_else(|_| wrong()),
        Kind::Boolean => match text {
            "true" | "1" => Ok(Value::Boolean(true)),
            "false" | "0" => Ok(Value::Boolean(false)),
            _ => wrong(),
        },
        Kind::Path if text.is_empty() => wrong(),
        Kind::Text | Kind::Path => Ok(Value::String(text.to_owned())),
        Kind::Choice(words) if words.iter().any(|word| word == text) => Ok(Value::String(text.to_owned())),
        Kind::Choice(_) => wrong(),
        Kind::Table(_) | Kind::Map(_) | Kind::List(_) | Kind::Unknown => {
            Err("this setting can only be set in the settings file (--config)".to_owned())
        }
    }
}

fn in_range(kind: &Kind, number: i64) -> bool {
    matches!(kind, Kind::Integer { max } if (0..=*max).contains(&number))
}

/// What a setting takes, for messages.
fn describe(kind: &Kind, unit: Option<Unit>) -> Cow<'static, str> {
    match kind {
        Kind::Table(_) | Kind::Map(_) => "a table".into(),
        Kind::List(kind) => match **kind {
            Kind::Table(_) => "a list of tables".into(),
            _ => "a list of texts, such as [\"…\"]".into(),
        },
        Kind::Integer { max } => match unit {
            Some(unit) => unit.expected().into(),
            None if *max < i64::MAX => format!("a whole number from 0 to {max}").into(),
            None => "a whole number from 0 on".into(),
        },
        Kind::Number => "a number".into(),
        Kind::Boolean => "true or false".into(),
        Kind::Text => "a text in quotes".into(),
        Kind::Path => "a path in quotes".into(),
        Kind::Choice(words) => {
            let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            quoted.join(" or ").into()
        }
        Kind::Unknown => "nothing".into(),
    }
}

/// A value of a file, for messages.
fn show(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// The message about a name that is not known, with what was probably meant.
pub(crate) fn unknown_name<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match closest(known.clone(), name, 1).pop() {
        Some(meant) => format!("unknown {what}; did you mean `{meant}`?"),
        None => {
            let names: Vec<&str> = known.clone().take(EXPECTED_LISTED_MAX).collect();
            let more = if known.count() > names.len() { ", …" } else { "" };
            format!("unknown {what}; expected one of {}{more}", names.join(", "))
        }
    }
}

/// The keys that a table must have and does not; `table` is its path.
pub(crate) fn missing_keys(values: &Table, fields: &[Field], table: &str) -> Vec<(String, String)> {
    let mut missing = Vec::new();
    for field in fields {
        let place = join_key(table, &field.name);
        match (values.get(&field.name), &field.kind) {
            (None, _) if field.is_required => {
                missing.push((place, format!("missing; expected: {}", first_sentence(&field.doc))));
            }
            (Some(Value::Table(values)), Kind::Table(fields)) => {
                missing.extend(missing_keys(values, fields, &place));
            }
            (Some(Value::Array(items)), Kind::List(kind)) => {
                if let Kind::Table(fields) = &**kind {
                    for (index, item) in items.iter().filter_map(Value::as_table).enumerate() {
                        missing.extend(missing_keys(item, fields, &format!("{place}[{index}]")));
                    }
                }
            }
            _ => {}
        }
    }
    missing
}

fn first_sentence(doc: &str) -> &str {
    doc.split_inclusive(". ").next().unwrap_or(doc).trim()
}

//! Settings files as their types describe them: which keys there are, what they mean, and everything that is wrong with a
//! file, each problem with its line.
//!
//! [`Field`] is made from the JSON Schema of a type, so a key, its documentation and its default stand in one place, the
//! struct. What reads a file, what reads the environment and what writes the documents all go by it.

mod field;
mod read;
mod units;

use std::fmt;
use std::path::PathBuf;

pub(crate) use field::{Field, Kind, fields_of};
pub(crate) use read::{FileTable, convert_text, missing_keys, read_file, unknown_name};
pub(crate) use units::Unit;

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named as in the message")]
pub enum Source {
    /// Nothing sets it.
    Default,
    /// A file; the line is absent where the whole file is meant.
    File { file: PathBuf, line: Option<usize> },
    /// An environment variable.
    Variable(String),
    /// An option of the command line.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line: Some(line) } => write!(f, "{}:{line}", file.display()),
            Self::File { file, line: None } => write!(f, "{}", file.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Something that is wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it is set.
    pub source: Source,
    /// The path of its key; empty if the file as a whole is meant.
    pub key: String,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.source != Source::Default {
            write!(f, "{}: ", self.source)?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl Problem {
    pub(crate) fn new(source: Source, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { source, key: key.into(), message: message.into() }
    }
}

/// The path of a key in a table.
pub(crate) fn join_key(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

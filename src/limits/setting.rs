//! Settings with values that a server cannot be started with.

use std::fmt;

/// A setting that is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: expected {expected}, got {value}")]
pub struct SettingProblem {
    /// The path of the key, as in the settings file.
    pub key: String,
    /// Which values are accepted.
    pub expected: String,
    /// The value that was set.
    pub value: String,
}

/// Every setting that is out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(pub Vec<SettingProblem>);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

/// Collects the settings of one table that are out of range.
#[derive(Debug)]
pub(crate) struct SettingCheck<'a> {
    table: &'a str,
    problems: Vec<SettingProblem>,
}

impl<'a> SettingCheck<'a> {
    /// `table` is the path of the keys' table; empty for the settings at the top.
    pub(crate) fn new(table: &'a str) -> Self {
        Self { table, problems: Vec::new() }
    }

    /// Requires `1..=max`: with 0 the server, or the principal, could do nothing of the kind.
    pub(crate) fn count(&mut self, name: &str, value: usize, max: usize) {
        self.bytes(name, value, 1, max);
    }

    /// Requires `min..=max` of a size in memory.
    pub(crate) fn bytes(&mut self, name: &str, value: usize, min: usize, max: usize) {
        // The largest number of either width means that there is no maximum.
        let max = if max == usize::MAX { u64::MAX } else { max as u64 };
        self.range(name, value as u64, min as u64, max);
    }

    /// Requires `min..=max`; with the largest number as `max` there is no maximum.
    pub(crate) fn range(&mut self, name: &str, value: u64, min: u64, max: u64) {
        if (min..=max).contains(&value) {
            return;
        }
        let expected = match max {
            u64::MAX => format!("at least {min}"),
            max => format!("{min} to {max}"),
        };
        self.add(name, expected, value.to_string());
    }

    /// Requires a number above 0 that is finite. A comparison with NaN is false, so NaN would switch a limit off.
    #[cfg(feature = "server")]
    pub(crate) fn positive_number(&mut self, name: &str, value: f64) {
        if !(value.is_finite() && value > 0.0) {
            self.add(name, "a positive number".to_owned(), value.to_string());
        }
    }

    fn add(&mut self, name: &str, expected: String, value: String) {
        let key = if self.table.is_empty() { name.to_owned() } else { format!("{}.{name}", self.table) };
        self.problems.push(SettingProblem { key, expected, value });
    }

    pub(crate) fn finish(self) -> Result<(), SettingsError> {
        if self.problems.is_empty() { Ok(()) } else { Err(SettingsError(self.problems)) }
    }
}

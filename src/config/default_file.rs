//! The settings file that changes nothing: every key with its meaning and its default, commented out.

use std::fmt::Write as _;

use super::fields;
use crate::settings_file::{Field, Kind, Unit, join_key};

/// Columns of a comment.
const COLUMNS: usize = 100;

/// A settings file with every key as a comment, to be edited.
pub fn default_file() -> String {
    let mut text = String::from(
        "# Settings of scomp-serve. Every key is here with its default, or with an example where it has none (marked so);\n\
         # remove the `#` of a line to set it. Paths are meant from the folder of this file.\n\n",
    );
    write_table(&mut text, &fields(), "");
    text
}

/// The keys of a table first, then the tables in it: that is the order that TOML needs.
fn write_table(text: &mut String, fields: &[Field], table: &str) {
    let is_inner = |field: &&Field| inner_table(&field.kind).is_some();
    for field in fields.iter().filter(|field| !is_inner(field)) {
        write_comment(text, &field.doc);
        if let Some(default) = &field.default_text {
            write_comment(text, &format!("Default: {default}."));
        }
        let mark = match (&field.default, field.is_required) {
            (_, true) => " # required",
            (Some(default), _) if field.sample() == Some(default) => "",
            _ => " # example",
        };
        let _ = writeln!(text, "# {} = {}{mark}\n", field.name, sample(field));
    }
    for field in fields.iter().filter(is_inner) {
        let Some(inner) = inner_table(&field.kind) else { continue };
        let path = join_key(table, &field.name);
        write_comment(text, &field.doc);
        let is_list = matches!(field.kind, Kind::List(_));
        let _ = writeln!(text, "{}\n", if is_list { format!("# [[{path}]]") } else { format!("# [{path}]") });
        write_table(text, inner, &path);
    }
}

fn inner_table(kind: &Kind) -> Option<&[Field]> {
    match kind {
        Kind::Table(fields) => Some(fields),
        Kind::List(items) => inner_table(items).filter(|_| matches!(**items, Kind::Table(_))),
        _ => None,
    }
}

/// A value of the setting as TOML.
pub(super) fn sample(field: &Field) -> String {
    match field.sample() {
        Some(value) => show(value, field.unit()),
        None => "\"\"".to_owned(),
    }
}

/// A value as TOML, with a unit where there is one.
pub(super) fn show(value: &serde_json::Value, unit: Option<Unit>) -> String {
    match (unit, value.as_u64()) {
        (Some(unit), Some(number)) => unit.show(number),
        // TOML has no null; a setting that is not set is not shown.
        _ => toml::Value::try_from(value).map(|value| value.to_string()).unwrap_or_default(),
    }
}

fn write_comment(text: &mut String, comment: &str) {
    let mut line = String::from("#");
    for word in comment.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            let _ = writeln!(text, "{line}");
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.len() > 1 {
        let _ = writeln!(text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LoadedSettings, Overrides, Settings};
    use super::*;

    fn load(test: &str, text: &str) -> Settings {
        let file = std::env::temp_dir().join(format!("scomp-default-{test}-{}.toml", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let loaded = LoadedSettings::load(Some(&file), [], Overrides::default());
        std::fs::remove_file(file).unwrap();
        assert_eq!(loaded.problems, [], "{text}");
        loaded.settings
    }

    /// The lines that are settings or headers of tables, without their `#`.
    fn uncommented(keeps: impl Fn(&str) -> bool) -> String {
        let file = default_file();
        let is_setting = |line: &&str| {
            line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
        };
        let lines = file.lines().filter_map(|line| line.strip_prefix("# ")).filter(is_setting);
        lines.filter(|line| keeps(line)).fold(String::new(), |text, line| text + line + "\n")
    }

    #[test]
    fn default_file_as_it_is_changes_nothing() {
        assert_eq!(load("as-it-is", &default_file()), Settings::default());
    }

    #[test]
    fn default_file_without_comments_has_the_defaults() {
        let is_default =
            |line: &str| !["#", "auth.tokens", "[tls]", "mcp.oauth"].iter().any(|part| line.contains(part));
        // What stands below a token or an issuer has no place without it.
        let text = uncommented(is_default);
        let is_below = |line: &&str| line.starts_with("unknown = ") || line.starts_with("scopes = ");
        let text: Vec<&str> = text.lines().filter(|line| !is_below(line)).collect();
        assert_eq!(load("defaults", &text.join("\n")), Settings::default());
    }

    #[test]
    fn every_line_of_the_default_file_is_accepted() {
        let text = uncommented(|_| true);
        let settings = load("all", &text);
        assert!(settings.tls.is_some() && settings.auth.tokens.len() == 1, "{text}");
    }
}

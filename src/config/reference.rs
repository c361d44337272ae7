//! `docs/configuration.md`, the part that the types define: every key with its type, default, variable and meaning.

use std::fmt::Write as _;

use super::default_file::{sample, show};
use super::environment::variable_of;
use super::fields;
use crate::settings_file::{Field, Kind, Unit, join_key};

/// Every setting, as Markdown.
pub fn reference() -> String {
    let mut text = String::new();
    write_table(&mut text, &fields(), "", "The top of the file");
    text
}

fn write_table(text: &mut String, fields: &[Field], table: &str, heading: &str) {
    let _ = writeln!(text, "## {heading}\n");
    let (tables, keys): (Vec<&Field>, Vec<&Field>) = fields.iter().partition(|field| inner(field).is_some());
    for field in &keys {
        write_key(text, field, table);
    }
    if !keys.is_empty() {
        write_example(text, &keys, table, heading);
    }
    for field in tables {
        let path = join_key(table, &field.name);
        let is_list = matches!(field.kind, Kind::List(_));
        let (heading, path) =
            if is_list { (format!("[[{path}]]"), format!("{path}[]")) } else { (format!("[{path}]"), path) };
        write_table(text, inner(field).unwrap_or_default(), &path, &heading.replace("[].", "."));
    }
}

fn inner(field: &Field) -> Option<&[Field]> {
    match &field.kind {
        Kind::Table(fields) => Some(fields),
        Kind::List(items) => match &**items {
            Kind::Table(fields) => Some(fields),
            _ => None,
        },
        _ => None,
    }
}

fn write_key(text: &mut String, field: &Field, table: &str) {
    let path = join_key(table, &field.name);
    let _ = writeln!(text, "### {}\n", path.replace("[]", ""));
    let _ = writeln!(text, "{}\n", field.doc.split_whitespace().collect::<Vec<_>>().join(" "));
    let default = match (&field.default, &field.default_text, field.is_required) {
        (_, _, true) => "required".to_owned(),
        (_, Some(words), _) => format!("default: {words}"),
        (Some(value), None, _) => format!("default: `{}`", show(value, field.unit())),
        (None, None, _) => "not set by default".to_owned(),
    };
    let variable = match variable_of(&path, &field.kind) {
        Some(variable) => format!("`{variable}`"),
        None => "only in the file".to_owned(),
    };
    let _ = writeln!(text, "{} · {default} · {variable}\n", type_name(&field.kind, field.unit()));
}

fn write_example(text: &mut String, keys: &[&Field], table: &str, heading: &str) {
    let _ = writeln!(text, "```toml");
    if !table.is_empty() {
        let _ = writeln!(text, "{heading}");
    }
    for field in keys {
        let _ = writeln!(text, "{} = {}", field.name, sample(field));
    }
    let _ = writeln!(text, "```\n");
}

fn type_name(kind: &Kind, unit: Option<Unit>) -> String {
    match kind {
        Kind::Table(_) | Kind::Map(_) => "table".to_owned(),
        Kind::List(items) => format!("list: {}", type_name(items, None)),
        Kind::Integer { .. } => match unit {
            Some(Unit::Milliseconds) => "duration, or a number of milliseconds".to_owned(),
            Some(Unit::Bytes) => "size, or a number of bytes".to_owned(),
            None => "whole number".to_owned(),
        },
        Kind::Number => "number".to_owned(),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            words.join(" or ")
        }
        Kind::Unknown => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is missing of the documentation of a key, by its path.
    fn gaps(fields: &[Field], table: &str, gaps: &mut Vec<String>) {
        for field in fields {
            let path = join_key(table, &field.name);
            if field.doc.is_empty() {
                gaps.push(format!("{path}: a doc comment"));
            }
            match (inner(field), &field.kind) {
                (Some(fields), _) => self::gaps(fields, &path, gaps),
                (None, Kind::Unknown) => gaps.push(format!("{path}: a type that a settings file can have")),
                (None, _) if field.sample().is_none() => {
                    gaps.push(format!("{path}: a default, or #[schemars(extend(\"x-example\" = …))]"));
                }
                (None, _) => {}
            }
        }
    }

    #[test]
    fn every_setting_is_documented() {
        let mut missing = Vec::new();
        gaps(&fields(), "", &mut missing);
        assert!(missing.is_empty(), "missing in the struct of the settings:\n{}", missing.join("\n"));
    }

    /// A path that is not marked would be meant from the working folder of the server, unlike all others.
    #[test]
    fn every_path_of_the_settings_is_marked() {
        fn paths(fields: &[Field], found: &mut Vec<String>) {
            for field in fields {
                match &field.kind {
                    Kind::Path => found.push(field.name.clone()),
                    Kind::List(items) if **items == Kind::Path => found.push(field.name.clone()),
                    _ => paths(inner(field).unwrap_or_default(), found),
                }
            }
        }
        let mut marked = Vec::new();
        paths(&fields(), &mut marked);
        let sources = [
            include_str!("mod.rs"),
            include_str!("../server/settings.rs"),
            include_str!("../sessions/settings.rs"),
        ];
        for source in sources {
            let structs = source.split("pub struct Overrides").next().unwrap();
            for line in structs.lines().filter(|line| line.contains("PathBuf") && line.contains("pub ")) {
                let name = line.trim().trim_start_matches("pub ").split(':').next().unwrap();
                assert!(
                    marked.iter().any(|path| path == name),
                    "{name}: #[schemars(extend(\"x-path\" = true))]"
                );
            }
        }
    }
}

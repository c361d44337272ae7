//! The effective settings as a settings file, each with where it comes from.

use std::fmt::Write as _;

use toml::{Table, Value};

use super::default_file::show;
use super::{LoadedSettings, fields};
use crate::settings_file::{Field, Kind, Source, join_key};

/// Digits of a token's hash that are shown: enough to tell two apart. The whole would let others try tokens.
const HASH_DIGITS_SHOWN: usize = 8;

/// The column at which sources begin.
const SOURCE_COLUMN: usize = 48;

impl LoadedSettings {
    /// Every setting that has a value, with its source. Hashes of tokens are cut.
    pub fn show(&self) -> String {
        let mut text = String::new();
        let table = Table::try_from(&self.settings).unwrap_or_default();
        self.show_table(&mut text, &table, &fields(), "");
        text
    }

    fn show_table(&self, text: &mut String, table: &Table, fields: &[Field], path: &str) {
        for field in fields {
            let Some(value) = table.get(&field.name) else { continue };
            if matches!(value, Value::Table(_)) || is_list_of_tables(&field.kind) {
                continue;
            }
            let place = join_key(path, &field.name);
            let line = format!("{} = {}", field.name, shown(field, value));
            let _ = writeln!(text, "{line:<SOURCE_COLUMN$} # {}", self.source_of(&place));
        }
        for field in fields {
            let place = join_key(path, &field.name);
            match (table.get(&field.name), &field.kind) {
                (Some(Value::Table(inner)), Kind::Table(fields)) => {
                    let mut body = String::new();
                    self.show_table(&mut body, inner, fields, &place);
                    if !body.is_empty() {
                        let header = without_indexes(&place);
                        let _ = write!(text, "\n[{header}]\n{}", body.trim_start_matches('\n'));
                    }
                }
                (Some(Value::Array(items)), Kind::List(kind)) => {
                    let Kind::Table(fields) = &**kind else { continue };
                    for (at, item) in items.iter().filter_map(Value::as_table).enumerate() {
                        let _ = writeln!(text, "\n[[{}]]", without_indexes(&place));
                        self.show_table(text, item, fields, &format!("{place}[{at}]"));
                    }
                }
                _ => {}
            }
        }
    }

    /// A token that no file lists comes from the variable for the only token.
    fn source_of(&self, place: &str) -> String {
        match self.source(place) {
            Source::Default if place.starts_with("auth.tokens[") => {
                "environment variable SCOMP_TOKEN".to_owned()
            }
            source => source.to_string(),
        }
    }
}

fn is_list_of_tables(kind: &Kind) -> bool {
    matches!(kind, Kind::List(items) if matches!(**items, Kind::Table(_)))
}

fn shown(field: &Field, value: &Value) -> String {
    if let (Value::String(hash), "sha256") = (value, field.name.as_str()) {
        return format!("\"{}…\"", hash.get(..HASH_DIGITS_SHOWN).unwrap_or_default());
    }
    match serde_json::to_value(value) {
        Ok(value) => show(&value, field.unit()),
        Err(_) => String::new(),
    }
}

/// `auth.tokens[0].policy` is the table `auth.tokens.policy` of the last token.
fn without_indexes(place: &str) -> String {
    let mut parts = place.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| path + part.split_once(']').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::super::Overrides;
    use super::*;

    #[test]
    fn settings_are_shown_with_their_source() {
        let file = std::env::temp_dir().join(format!("scomp-show-{}.toml", std::process::id()));
        let tokens =
            "[[auth.tokens]]\nprincipal = 'ci'\nsha256 = '0123456789abcdef'\npolicy = { deny = ['read'] }\n";
        std::fs::write(&file, format!("drain_ms = '5s'\nbindings = 'b'\n{tokens}")).unwrap();
        let environment =
            [("SCOMP_SHARDS".to_owned(), "3".to_owned()), ("SCOMP_TOKEN".to_owned(), "s3cret".to_owned())];
        let overrides = Overrides { listen: Some("127.0.0.1:1".to_owned()), ..Overrides::default() };
        let loaded = LoadedSettings::load(Some(&file), environment, overrides);
        let shown = loaded.show();
        let folder = file.parent().unwrap().join("b");
        let lines = [
            ("listen = \"127.0.0.1:1\"".to_owned(), "--listen".to_owned()),
            (format!("bindings = {:?}", folder.display().to_string()), format!("{}:2", file.display())),
            ("shards = 3".to_owned(), "environment variable SCOMP_SHARDS".to_owned()),
            ("drain_ms = \"5s\"".to_owned(), format!("{}:1", file.display())),
            ("sha256 = \"01234567…\"".to_owned(), format!("{}:5", file.display())),
            ("deny = [\"read\"]".to_owned(), format!("{}:6", file.display())),
            ("cpu_ms_max = \"5s\"".to_owned(), "default".to_owned()),
        ];
        for (line, source) in lines {
            let is_there =
                shown.lines().any(|one| one.starts_with(&line) && one.ends_with(&format!(" # {source}")));
            assert!(is_there, "{line} # {source} is not in\n{shown}");
        }
        assert!(shown.contains("principal = \"default\"") && !shown.contains("s3cret"), "{shown}");
        assert!(toml::from_str::<Table>(&shown).is_ok(), "{shown}");
        std::fs::remove_file(file).unwrap();
    }
}

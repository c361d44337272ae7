//! Durations and sizes with a unit, such as `"5s"` and `"64MiB"`, wherever a key counts milliseconds or bytes.
//!
//! They are replaced by their numbers in the text of the file, before it is read as settings: the types stay plain
//! numbers, and every later error still shows the line that the operator wrote.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a number of a setting counts, as the name of its key says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Bytes,
}

impl Unit {
    /// The unit of a key; `None` if it counts something else.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        key.split('_').find_map(|word| match word {
            "ms" => Some(Self::Milliseconds),
            "bytes" => Some(Self::Bytes),
            _ => None,
        })
    }

    fn factors(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Milliseconds => {
                &[("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
            }
            Self::Bytes => {
                &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)]
            }
        }
    }

    /// The number that a text such as `64MiB` means.
    pub(super) fn parse(self, text: &str) -> Result<i64, String> {
        let wrong = || {
            let units: Vec<&str> = self.factors().iter().map(|(name, _)| *name).collect();
            let example = match self {
                Self::Milliseconds => "a number of milliseconds, or a duration such as \"5s\"",
                Self::Bytes => "a number of bytes, or a size such as \"64MiB\"",
            };
            format!("expected {example} (units: {}), got {text:?}", units.join(", "))
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let (_, factor) =
            self.factors().iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(wrong)?;
        let number: u64 = digits.replace('_', "").parse().map_err(|_| wrong())?;
        number.checked_mul(*factor).and_then(|product| i64::try_from(product).ok()).ok_or_else(wrong)
    }
}

/// The text of a settings file with numbers in place of durations and sizes, or every one of them that is wrong. A text
/// that is not TOML is left as it is.
pub(super) fn replace_units(text: &str) -> Result<String, Vec<String>> {
    let Ok(table) = DeTable::parse(text) else { return Ok(text.to_owned()) };
    let mut found = Found { text, numbers: Vec::new(), problems: Vec::new() };
    found.visit_table(table.get_ref(), "");
    if !found.problems.is_empty() {
        found.problems.sort();
        return Err(found.problems.into_iter().map(|(_, problem)| problem).collect());
    }
    found.numbers.sort_by_key(|(span, _)| span.start);
    let mut replaced = text.to_owned();
    for (span, number) in found.numbers.into_iter().rev() {
        replaced.replace_range(span, &number.to_string());
    }
    Ok(replaced)
}

struct Found<'a> {
    text: &'a str,
    numbers: Vec<(Range<usize>, i64)>,
    /// By line.
    problems: Vec<(usize, String)>,
}

impl Found<'_> {
    fn visit_table(&mut self, table: &DeTable<'_>, path: &str) {
        for (key, value) in table {
            let key = key.get_ref();
            let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            self.visit(Unit::of_key(key), value, &path);
        }
    }

    fn visit(&mut self, unit: Option<Unit>, value: &Spanned<DeValue<'_>>, path: &str) {
        match (value.get_ref(), unit) {
            (DeValue::Table(table), _) => self.visit_table(table, path),
            (DeValue::Array(items), _) => {
                for (at, item) in items.iter().enumerate() {
                    self.visit(None, item, &format!("{path}[{at}]"));
                }
            }
            (DeValue::String(text), Some(unit)) => match unit.parse(text) {
                Ok(number) => self.numbers.push((value.span(), number)),
                Err(message) => {
                    let before = self.text.get(..value.span().start).unwrap_or_default();
                    let line = before.matches('\n').count() + 1;
                    self.problems.push((line, format!("line {line}: {path}: {message}")));
                }
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_become_numbers() {
        let text = "drain_ms = \"5s\"\n[limits]\nmemory_bytes_max = '64 MiB'\nwall_ms_max = 7\n\
                    [[auth.tokens]]\nquotas = { memory_bytes_max = '1GiB' }\n";
        let expected = "drain_ms = 5000\n[limits]\nmemory_bytes_max = 67108864\nwall_ms_max = 7\n\
                        [[auth.tokens]]\nquotas = { memory_bytes_max = 1073741824 }\n";
        assert_eq!(replace_units(text).unwrap(), expected);
    }

    #[test]
    fn wrong_units_are_all_listed_with_line_and_key() {
        let text = "drain_ms = '5MiB'\n[limits]\nmemory_bytes_max = '64MB'\ncpu_ms_max = 's'\n";
        let problems = replace_units(text).unwrap_err();
        let starts =
            ["line 1: drain_ms: ", "line 3: limits.memory_bytes_max: ", "line 4: limits.cpu_ms_max: "];
        assert_eq!(problems.len(), starts.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(start), "{problem}");
        }
        assert!(problems[1].ends_with("(units: B, KiB, MiB, GiB, TiB), got \"64MB\""), "{problems:?}");
    }

    #[test]
    fn largest_number_is_accepted_and_one_past_it_refused() {
        let most = format!("{}ms", i64::MAX);
        assert_eq!(Unit::Milliseconds.parse(&most), Ok(i64::MAX));
        for text in ["9223372036854775808ms", "18446744073709551615h", "-1s", "1.5s", "", "ms"] {
            assert!(Unit::Milliseconds.parse(text).is_err(), "{text}");
        }
    }
}

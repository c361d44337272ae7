//! Durations and sizes with a unit, such as `"5s"` and `"64MiB"`, wherever a key counts milliseconds or bytes.
//!
//! The types of settings stay plain numbers: the reader of a file or a variable converts them.

/// What a number of a setting counts, as the name of its key says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Milliseconds,
    Bytes,
}

impl Unit {
    /// The unit of a key; `None` if it counts something else.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
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

    /// The names of the units that a text may have.
    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        self.factors().iter().map(|(name, _)| *name)
    }

    /// What a setting with this unit takes, for messages.
    pub(crate) fn expected(self) -> String {
        let example = match self {
            Self::Milliseconds => "a number of milliseconds, or a duration such as \"5s\"",
            Self::Bytes => "a number of bytes, or a size such as \"64MiB\"",
        };
        format!("{example} (units: {})", self.words().collect::<Vec<_>>().join(", "))
    }

    /// A number as a person would write it: with the largest unit that divides it, in quotes; a bare 0 has none.
    pub(crate) fn show(self, number: u64) -> String {
        let fits = |(_, factor): &&(&str, u64)| number > 0 && number.is_multiple_of(*factor);
        match self.factors().iter().rev().find(fits) {
            Some((name, factor)) => format!("\"{}{name}\"", number / factor),
            None => number.to_string(),
        }
    }

    /// The number that a text such as `64MiB` means.
    pub(crate) fn parse(self, text: &str) -> Result<i64, String> {
        let wrong = || format!("expected {}, got {text:?}", self.expected());
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let (_, factor) =
            self.factors().iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(wrong)?;
        let number: u64 = digits.replace('_', "").parse().map_err(|_| wrong())?;
        number.checked_mul(*factor).and_then(|product| i64::try_from(product).ok()).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_their_largest_unit() {
        for (unit, number, shown) in [
            (Unit::Milliseconds, 0, "0"),
            (Unit::Milliseconds, 60_000, "\"1min\""),
            (Unit::Milliseconds, 1_500, "\"1500ms\""),
            (Unit::Bytes, 64 << 20, "\"64MiB\""),
            (Unit::Bytes, 1_000, "\"1000B\""),
        ] {
            assert_eq!(unit.show(number), shown);
            assert_eq!(
                unit.parse(shown.trim_matches('"')).ok().filter(|_| number > 0).unwrap_or(0),
                number as i64
            );
        }
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

//! Ids of requests that the other peer sent, kept exactly as written.
//!
//! An integer is echoed digit for digit, even past 64 bits, so one that does not fit a `u64` is kept as text. Fractions, exponents
//! and `null` are not accepted: two spellings of one number must not become two ids.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use serde_json::value::RawValue;

/// Longest id that is accepted, as text.
/// Every id in flight is held, so it must not be a way to fill memory.
pub const ID_BYTES_MAX: usize = 256;

/// The id of a request, as its sender wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// An integer that fits, as nearly all do.
    Number(u64),
    /// The digits of any other integer.
    Digits(Box<str>),
    /// A string, unescaped.
    Text(Box<str>),
}

impl Id {
    /// Reads an id, or returns why it is not one.
    pub(crate) fn from_raw(raw: &RawValue) -> Result<Self, &'static str> {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'"') => Self::from_quoted(text),
            Some(b'-' | b'0'..=b'9') => Self::from_digits(text),
            Some(_) | None => Err("`id` must be an integer or a string"),
        }
    }

    fn from_quoted(text: &str) -> Result<Self, &'static str> {
        let text: String = serde_json::from_str(text).map_err(|_| "`id` is not a valid string")?;
        if text.len() > ID_BYTES_MAX {
            return Err("`id` is longer than 256 bytes");
        }
        Ok(Self::Text(text.into()))
    }

    fn from_digits(text: &str) -> Result<Self, &'static str> {
        if text.len() > ID_BYTES_MAX {
            return Err("`id` is longer than 256 bytes");
        }
        // JSON writes a number that fits in one way only, so its digits need not be kept.
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(number));
        }
        if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            return Err("`id` must not be fractional");
        }
        Ok(Self::Digits(text.into()))
    }

    /// As JSON text.
    pub(crate) fn to_json(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Digits(digits) => digits.to_string(),
            Self::Text(text) => Value::from(&**text).to_string(),
        }
    }

    /// The number, if it is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Digits(_) | Self::Text(_) => None,
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Digits(text) | Self::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Digits(digits) => match RawValue::from_string(digits.to_string()) {
                Ok(raw) => raw.serialize(serializer),
                Err(error) => Err(serde::ser::Error::custom(error)),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(&Box::<RawValue>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Id, &'static str> {
        Id::from_raw(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn integers_are_echoed_digit_for_digit() {
        for digits in [
            "0",
            "-0",
            "-7",
            "5",
            "18446744073709551615",
            "18446744073709551616",
            "123456789012345678901234567890",
        ] {
            assert_eq!(serde_json::to_string(&read(digits).unwrap()).unwrap(), digits);
        }
    }

    #[test]
    fn strings_are_echoed_as_equal_strings() {
        assert_eq!(serde_json::to_string(&read(r#""\u0061b""#).unwrap()).unwrap(), r#""ab""#);
    }

    #[test]
    fn null_fractions_and_structures_are_not_accepted() {
        for text in ["null", "1.0", "1e3", "true", "{}", "[1]", r#""\ud800""#] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn id_of_256_bytes_is_the_longest() {
        let longest = format!("\"{}\"", "x".repeat(ID_BYTES_MAX));
        let longer = format!("\"{}\"", "x".repeat(ID_BYTES_MAX + 1));
        assert!(read(&longest).is_ok());
        assert!(read(&longer).is_err());
        assert!(read(&"1".repeat(ID_BYTES_MAX)).is_ok());
        assert!(read(&"1".repeat(ID_BYTES_MAX + 1)).is_err());
    }
}

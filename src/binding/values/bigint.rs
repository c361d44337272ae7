//! Integers of any size: a `bigint` in a script.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use super::super::tags::{BIGINT_CHARS_MAX, is_bigint};
use super::{read_tag, tag_schema, write_tag};

const TAG: &str = "$bigint";

/// An integer of up to 10,000 digits, which a script has as a `bigint`.
///
/// It is kept as its decimal text: convert it to an integer of Rust to compute with it, or parse the text with a library
/// for large numbers.
///
/// ```
/// use scomp::values::BigInt;
///
/// let large = BigInt::from(u128::MAX);
/// assert_eq!(serde_json::to_string(&large)?, r#"{"$bigint":"340282366920938463463374607431768211455"}"#);
/// assert_eq!(u128::try_from(&large)?, u128::MAX);
/// assert!(u64::try_from(&large).is_err());
/// let larger: BigInt = format!("1{large}").parse()?;
/// assert_eq!(larger.to_string().len(), 40);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BigInt(String);

/// A number that does not fit, or a text that is not a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct BigIntError(&'static str);

impl FromStr for BigInt {
    type Err = BigIntError;

    fn from_str(text: &str) -> Result<Self, BigIntError> {
        const { assert!(BIGINT_CHARS_MAX == 10_000) };
        if !is_bigint(text) {
            return Err(BigIntError("a decimal integer of at most 10000 digits"));
        }
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
        let digits = digits.trim_start_matches('0');
        Ok(Self(if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") }))
    }
}

impl fmt::Display for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! conversions {
    ($($integer:ty: $expected:literal),*) => {$(
        impl From<$integer> for BigInt {
            fn from(number: $integer) -> Self {
                Self(number.to_string())
            }
        }

        impl TryFrom<&BigInt> for $integer {
            type Error = BigIntError;

            fn try_from(number: &BigInt) -> Result<Self, BigIntError> {
                number.0.parse().map_err(|_| BigIntError($expected))
            }
        }
    )*};
}

conversions! {
    i64: "an integer of 64 bits", u64: "a positive integer of 64 bits",
    i128: "an integer of 128 bits", u128: "a positive integer of 128 bits"
}

impl Serialize for BigInt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_tag(serializer, TAG, self)
    }
}

impl<'de> Deserialize<'de> for BigInt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_tag(deserializer, TAG)?.parse().map_err(|error| D::Error::custom(format_args!("{TAG}: {error}")))
    }
}

impl JsonSchema for BigInt {
    fn schema_name() -> Cow<'static, str> {
        "BigInt".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        tag_schema(TAG, json!({"type": "string"}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bigint_is_a_decimal_integer_of_limited_length() {
        for (text, number) in [("-0", "0"), ("007", "7"), ("-12", "-12"), ("-001", "-1")] {
            assert_eq!(text.parse::<BigInt>().unwrap().to_string(), number);
        }
        assert!("9".repeat(BIGINT_CHARS_MAX).parse::<BigInt>().is_ok());
        assert!("9".repeat(BIGINT_CHARS_MAX + 1).parse::<BigInt>().is_err());
        for text in ["", "-", "1.5", "0x1", "1n"] {
            assert!(text.parse::<BigInt>().is_err(), "{text}");
        }
        assert_eq!(i64::try_from(&BigInt::from(i64::MIN)), Ok(i64::MIN));
        assert!(u128::try_from(&BigInt::from(-1_i64)).is_err());
    }
}

//! Bytes: a `Uint8Array` in a script.

use std::borrow::Cow;
use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use super::{read_tag, tag_schema, write_tag};

const TAG: &str = "$bytes";

/// Bytes, which a script has as a `Uint8Array`.
///
/// ```
/// use scomp::values::Bytes;
///
/// let bytes = Bytes::from(vec![0, 1]);
/// assert_eq!(serde_json::to_string(&bytes)?, r#"{"$bytes":"AAE="}"#);
/// assert_eq!(serde_json::from_str::<Bytes>(r#"{"$bytes":"AAE="}"#)?, bytes);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Bytes(Vec<u8>);

impl Bytes {
    /// The bytes themselves.
    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl FromIterator<u8> for Bytes {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
        Self(bytes.into_iter().collect())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_tag(serializer, TAG, &BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = read_tag(deserializer, TAG)?;
        BASE64.decode(text).map(Self).map_err(|error| D::Error::custom(format_args!("{TAG}: {error}")))
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        tag_schema(TAG, json!({"type": "string", "contentEncoding": "base64"}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_base64_are_refused() {
        for text in [r#"{"$bytes":"*"}"#, r#"{"$bytes":1}"#, r#"{"$bytes":"","more":1}"#, r#""AAE=""#, "[0]"]
        {
            assert!(serde_json::from_str::<Bytes>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<Bytes>(r#"{"$bytes":""}"#).unwrap().into_vec(), [0_u8; 0]);
    }
}

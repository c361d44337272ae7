//! The arguments of the tools, read strictly: a misspelled one is an error that names it.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ToolError;

/// Longest `key`: it is kept.
const KEY_BYTES_MAX: usize = 256;

/// Most names of one `describe`.
pub(super) const NAMES_MAX: usize = 50;

/// Most hits of one `search`, and how many without `limit`.
const HITS_MAX: usize = 50;
const HITS_DEFAULT: usize = 10;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExecuteInput {
    pub(super) code: String,
    #[serde(default)]
    pub(super) session: Option<String>,
    #[serde(default)]
    pub(super) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(super) wait_ms: Option<u64>,
    #[serde(default)]
    pub(super) key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WaitInput {
    pub(super) execution: String,
    #[serde(default)]
    pub(super) wait_ms: Option<u64>,
    #[serde(default)]
    pub(super) cancel: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchInput {
    pub(super) query: String,
    #[serde(default)]
    pub(super) detail: Detail,
    #[serde(default)]
    pub(super) limit: Option<usize>,
}

/// How much a search says of each binding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Detail {
    #[default]
    Brief,
    Signature,
    Full,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DescribeInput {
    pub(super) names: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionInput {
    pub(super) op: SessionOp,
    #[serde(default)]
    pub(super) session: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SessionOp {
    List,
    Reset,
    Close,
    Fork,
}

/// Reads the arguments of a tool.
pub(super) fn read<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, ToolError> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    serde_json::from_value(arguments).map_err(|error| ToolError::InvalidArguments(error.to_string()))
}

impl ExecuteInput {
    /// Reads and checks the arguments of `execute`.
    pub(super) fn read(arguments: Option<JsonObject>) -> Result<Self, ToolError> {
        let input: Self = read(arguments)?;
        let wrong = |message: &str| Err(ToolError::InvalidArguments(message.to_owned()));
        if input.timeout_ms == Some(0) {
            return wrong("timeoutMs: expected at least 1");
        }
        match &input.key {
            Some(key) if key.is_empty() || key.len() > KEY_BYTES_MAX => {
                wrong(&format!("key: expected 1 to {KEY_BYTES_MAX} bytes"))
            }
            Some(_) | None => Ok(input),
        }
    }
}

impl SearchInput {
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(HITS_DEFAULT).clamp(1, HITS_MAX)
    }
}

impl DescribeInput {
    /// Reads and checks the arguments of `describe`.
    pub(super) fn read(arguments: Option<JsonObject>) -> Result<Self, ToolError> {
        let input: Self = read(arguments)?;
        if input.names.is_empty() || input.names.len() > NAMES_MAX {
            return Err(ToolError::InvalidArguments(format!("names: expected 1 to {NAMES_MAX} names")));
        }
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: &Value) -> Option<JsonObject> {
        value.as_object().cloned()
    }

    #[test]
    fn misspelled_argument_is_named() {
        let error = ExecuteInput::read(object(&json!({"code": "1", "waitMS": 5}))).unwrap_err();
        assert!(error.to_string().contains("waitMS"), "{error}");
        assert!(read::<SessionInput>(object(&json!({"op": "list"}))).is_ok());
        let error = read::<SessionInput>(object(&json!({"op": "lst"}))).unwrap_err().to_string();
        assert!(error.contains("lst") && error.contains("fork"), "{error}");
    }

    #[test]
    fn counts_are_checked_at_their_limits() {
        let key = |bytes: usize| ExecuteInput::read(object(&json!({"code": "1", "key": "k".repeat(bytes)})));
        assert!(key(KEY_BYTES_MAX).is_ok() && key(KEY_BYTES_MAX + 1).is_err() && key(0).is_err());
        assert!(ExecuteInput::read(object(&json!({"code": "1", "timeoutMs": 0}))).is_err());
        let names = |count: usize| DescribeInput::read(object(&json!({"names": vec!["a"; count]})));
        assert!(names(NAMES_MAX).is_ok() && names(NAMES_MAX + 1).is_err() && names(0).is_err());
        let limit = |limit| SearchInput { query: String::new(), detail: Detail::Brief, limit }.limit();
        assert_eq!((limit(None), limit(Some(0)), limit(Some(1000))), (HITS_DEFAULT, 1, HITS_MAX));
    }
}

//! What a JSON text would be as a value in memory, measured without making it one.
//!
//! A value in memory takes many times the bytes of its text: `[0,0,0]` has two bytes an element and some eighty in
//! memory. It is asked before a value is made of a text that a peer sent.

use serde_json::Value;

/// Bytes of a field beside its value and the text of its key: its entry, its hash and the block of the key.
const FIELD_BYTES: usize = 72;

/// Bytes of one element. Lists grow by doubling, so on average a quarter of them is empty.
pub(crate) const VALUE_BYTES: usize = size_of::<Value>() + size_of::<Value>() / 2;

/// The measures of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    /// How deep it is nested; 0 for a scalar.
    pub depth: usize,
    /// About how many bytes it takes as a [`Value`].
    pub tree_bytes: usize,
}

impl Shape {
    /// Measures a text that is known to be JSON; of any other text the measures mean nothing.
    pub(crate) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let (mut at, mut depth, mut deepest, mut values, mut fields) = (0, 0_usize, 0, 1_usize, 0_usize);
        while let Some(byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'"' => at = end_of_string(bytes, at),
                b'[' | b'{' => {
                    depth += 1;
                    deepest = deepest.max(depth);
                    values += 1;
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                b',' => values += 1,
                b':' => fields += 1,
                _ => {}
            }
        }
        let tree_bytes = text
            .len()
            .saturating_add(values.saturating_mul(VALUE_BYTES))
            .saturating_add(fields.saturating_mul(FIELD_BYTES));
        Self { depth: deepest, tree_bytes }
    }
}

/// Where a string ends whose opening quote is before `at`: after its closing quote.
pub(crate) fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// About how many bytes a value takes in memory, by the same measure.
pub(crate) fn tree_bytes(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(tree_bytes).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(key, field)| FIELD_BYTES + key.len() + tree_bytes(field)).sum()
            }
        }
}

/// About how many bytes a value takes as text.
pub(crate) fn text_bytes(value: &Value) -> usize {
    const SCALAR_BYTES: usize = 8;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR_BYTES,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(text_bytes).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(key, field)| key.len() + 4 + text_bytes(field)).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        for (text, depth) in [("1", 0), (r#""[[{""#, 0), ("[]", 1), (r#"{"a\"[":[1,{}]}"#, 3)] {
            assert_eq!(Shape::of(text).depth, depth, "{text}");
        }
    }

    #[test]
    fn many_small_values_take_many_times_their_text() {
        let text = format!("[{}0]", "0,".repeat(10_000));
        assert!(Shape::of(&text).tree_bytes > 30 * text.len());
        let text = format!("{:?}", "x".repeat(10_000));
        assert!(Shape::of(&text).tree_bytes < 2 * text.len());
    }

    #[test]
    fn broken_text_is_measured_without_harm() {
        for text in ["", "]]]", "\"", "\"\\", "{[}"] {
            let _ = Shape::of(text);
        }
    }

    proptest! {
        #[test]
        fn text_and_value_are_measured_alike(keys in proptest::collection::vec("[a-z\"]{0,8}", 0..20)) {
            let object: Value = keys.iter().map(|key| (key.clone(), Value::from(vec![1, 2]))).collect();
            let (by_text, by_value) = (Shape::of(&object.to_string()).tree_bytes, tree_bytes(&object));
            prop_assert!(by_text >= by_value && by_text <= 3 * by_value, "{by_text} {by_value}");
        }
    }
}

//! Values of a configuration that must not be shown: in a log, in an error, in a description.
//!
//! Other programs repeat what they were given, an HTTP library the URL with its key, a child its environment. So texts
//! that come from them are searched for the values themselves.

use serde_json::Value;

/// The shortest value that is hidden. What is shorter is a port or a switch, and would make other texts unreadable.
const SECRET_BYTES_MIN: usize = 6;

/// Values with the names that are shown in their place. Its `Debug` form has only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The longest value first: it may contain a shorter one.
    values: Vec<(String, String)>,
}

impl Secrets {
    /// Hides `value`; texts show `${name}` in its place.
    pub fn add(&mut self, name: &str, value: &str) {
        if value.len() < SECRET_BYTES_MIN {
            return;
        }
        // Programs print their environment as JSON.
        let quoted = Value::from(value).to_string();
        for form in [value, quoted.trim_matches('"')] {
            if !self.values.iter().any(|(known, _)| known == form) {
                self.values.push((form.to_owned(), name.to_owned()));
            }
        }
        self.values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    }

    /// The length of the longest value.
    pub fn longest_bytes(&self) -> usize {
        self.values.first().map_or(0, |(value, _)| value.len())
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Removes the values from every text of a JSON value; names of members stay as they are.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) if self.values.iter().any(|(value, _)| text.contains(value)) => {
                *text = self.redact(text);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.redact_value(field)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The text without the values.
    pub fn redact(&self, text: &str) -> String {
        let hide = |text: String, (value, name): &(String, String)| match text.contains(value) {
            true => text.replace(value, &format!("${{{name}}}")),
            false => text,
        };
        self.values.iter().fold(text.to_owned(), hide)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.values.iter().map(|(_, name)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_replaced_by_their_names() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "abcdef");
        secrets.add("TOKEN", "abcdefgh");
        secrets.add("PORT", "80801");
        assert_eq!(secrets.redact("x abcdefgh abcdef 80801"), "x ${TOKEN} ${KEY} 80801");
        assert_eq!(format!("{secrets:?}"), r#"["TOKEN", "KEY"]"#);
    }

    #[test]
    fn values_are_found_in_json_too() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "ab\"c\\def");
        let mut value = json!({"a": ["x ab\"c\\def", 1], "b": json!("ab\"c\\def").to_string()});
        secrets.redact_value(&mut value);
        assert_eq!(value, json!({"a": ["x ${KEY}", 1], "b": "\"${KEY}\""}));
    }

    #[test]
    fn short_values_are_not_hidden() {
        let mut secrets = Secrets::default();
        secrets.add("A", &"x".repeat(SECRET_BYTES_MIN - 1));
        assert!(secrets.is_empty());
        secrets.add("A", &"x".repeat(SECRET_BYTES_MIN));
        assert_eq!(secrets.redact("xxxxxx"), "${A}");
    }
}

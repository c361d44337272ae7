//! How large a value is, in one pass and without recursion, so that it is safe on any value.

use serde_json::Value;

/// The size of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Levels of objects and arrays; 1 for a scalar.
    pub(super) depth: usize,
    /// Values and names of properties.
    pub(super) parts: u64,
    /// Bytes of texts and names.
    pub(super) bytes: u64,
    /// Bytes of the longest of these.
    pub(super) longest: u64,
}

impl Extent {
    /// `None` if the value has more levels than `depth_max`.
    pub(super) fn of(value: &Value, depth_max: usize) -> Option<Self> {
        let mut extent = Self { depth: 1, ..Self::default() };
        if !extent.add(value) {
            return (depth_max > 0).then_some(extent);
        }
        let mut pending = vec![(value, 1)];
        while let Some((value, depth)) = pending.pop() {
            if depth > depth_max {
                return None;
            }
            extent.depth = extent.depth.max(depth);
            match value {
                Value::Object(members) => {
                    for (name, member) in members {
                        extent.add_text(name);
                        if extent.add(member) {
                            pending.push((member, depth + 1));
                        }
                    }
                }
                Value::Array(items) => {
                    for item in items {
                        if extent.add(item) {
                            pending.push((item, depth + 1));
                        }
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        Some(extent)
    }

    /// Counts a value. Returns whether it has members.
    fn add(&mut self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.add_text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.parts += 1,
            Value::Array(_) | Value::Object(_) => {
                self.parts += 1;
                return true;
            }
        }
        false
    }

    fn add_text(&mut self, text: &str) {
        let bytes = text.len() as u64;
        self.parts += 1;
        self.bytes += bytes;
        self.longest = self.longest.max(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn extent_counts_values_names_and_texts() {
        let extent = Extent::of(&json!({"ab": ["xyz", 1, {}], "c": null}), 3).unwrap();
        assert_eq!(extent, Extent { depth: 3, parts: 8, bytes: 6, longest: 3 });
        assert_eq!(Extent::of(&json!([[[1]]]), 2), None);
        assert_eq!(Extent::of(&json!("text"), 1).unwrap().bytes, 4);
    }
}

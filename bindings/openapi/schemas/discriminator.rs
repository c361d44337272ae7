//! `discriminator`: a property that says which alternative a value is.

use serde_json::{Map, Value, json};

/// Which alternative a value is, by one of its properties.
pub(super) struct Discriminator<'a> {
    property: &'a str,
    mapping: Option<&'a Map<String, Value>>,
}

impl<'a> Discriminator<'a> {
    pub(super) fn read(value: &'a Value) -> Option<Self> {
        let property = value.get("propertyName")?.as_str()?;
        Some(Self { property, mapping: value.get("mapping").and_then(Value::as_object) })
    }

    /// What the property is in the alternative behind a pointer: the names that the mapping has for it, or its own.
    pub(super) fn condition(&self, pointer: &str) -> Value {
        let own = pointer.rsplit('/').next().unwrap_or_default();
        let leads_here = |target: &Value| {
            let target = target.as_str().unwrap_or_default();
            target == own || target.strip_prefix('#') == Some(pointer)
        };
        let mapped = self.mapping.into_iter().flatten().filter(|(_, target)| leads_here(target));
        let mut names: Vec<&str> = mapped.map(|(name, _)| name.as_str()).collect();
        if names.is_empty() {
            names.push(own);
        }
        let property = self.property;
        match names.as_slice() {
            [name] => json!({"properties": {property: {"const": name}}, "required": [property]}),
            names => json!({"properties": {property: {"enum": names}}, "required": [property]}),
        }
    }
}

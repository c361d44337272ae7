//! Values of this protocol and plain JSON, as the other protocols speak it.
//!
//! On our wire an object such as `{"$date": …}` is a tag. A peer of another protocol means the object itself, so it is
//! escaped on the way to a script; and what a script answers is brought down to what JSON has words for.

use serde_json::{Map, Value};

/// The tags that may stand alone in an object on the wire.
pub(crate) const TAGS: [&str; 9] =
    ["$undefined", "$bigint", "$date", "$bytes", "$map", "$set", "$number", "$error", "$object"];

/// The tag of a function, which may have company (`name`, `input`, `output`).
pub(crate) const FUNCTION_TAG: &str = "$fn";

/// Deepest value that is turned: as deep as the parser of a message goes.
const DEPTH_MAX: usize = 128;

/// A value that plain JSON cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be sent as JSON")]
pub struct NotPlain(&'static str);

/// Whether an object with these fields would be taken for a tag.
pub(crate) fn reads_as_tag(fields: &Map<String, Value>) -> bool {
    fields.contains_key(FUNCTION_TAG)
        || fields.len() == 1 && fields.keys().all(|key| TAGS.contains(&key.as_str()))
}

/// An object that would read as a tag is wrapped, so that it comes back as it went.
pub(crate) fn wrap(fields: Map<String, Value>) -> Value {
    if reads_as_tag(&fields) {
        Value::Object(Map::from_iter([("$object".to_owned(), Value::Object(fields))]))
    } else {
        Value::Object(fields)
    }
}

/// A plain JSON value as it stands on our wire.
pub fn from_plain(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(from_plain).collect(),
        Value::Object(fields) => {
            wrap(fields.into_iter().map(|(key, value)| (key, from_plain(value))).collect())
        }
        scalar => scalar,
    }
}

/// A value of our wire as plain JSON, in the way of `JSON.stringify`: a date is its text, what is no number is null,
/// and what is undefined is left out. A function, a map, bytes and the like are refused.
pub fn to_plain(value: Value) -> Result<Value, NotPlain> {
    Ok(plain(value, 0)?.unwrap_or(Value::Null))
}

/// `None` stands for undefined.
fn plain(value: Value, depth: usize) -> Result<Option<Value>, NotPlain> {
    if depth > DEPTH_MAX {
        return Err(NotPlain("so deep a value"));
    }
    match value {
        Value::Array(items) => {
            let items = items.into_iter().map(|item| Ok(plain(item, depth + 1)?.unwrap_or(Value::Null)));
            Ok(Some(Value::Array(items.collect::<Result<_, _>>()?)))
        }
        Value::Object(fields) if reads_as_tag(&fields) => untagged(fields, depth),
        Value::Object(fields) => Ok(Some(Value::Object(plain_fields(fields, depth)?))),
        scalar => Ok(Some(scalar)),
    }
}

fn plain_fields(fields: Map<String, Value>, depth: usize) -> Result<Map<String, Value>, NotPlain> {
    let mut turned = Map::new();
    for (key, value) in fields {
        if let Some(value) = plain(value, depth + 1)? {
            turned.insert(key, value);
        }
    }
    Ok(turned)
}

fn untagged(fields: Map<String, Value>, depth: usize) -> Result<Option<Value>, NotPlain> {
    if fields.contains_key(FUNCTION_TAG) {
        return Err(NotPlain("a function"));
    }
    match fields.into_iter().next() {
        Some((tag, Value::Object(inner))) if tag == "$object" => {
            Ok(Some(Value::Object(plain_fields(inner, depth)?)))
        }
        Some((tag, date)) if tag == "$date" => Ok(Some(date)),
        Some((tag, number)) if tag == "$number" => {
            Ok(Some(if number == "-0" { Value::from(0) } else { Value::Null }))
        }
        Some((tag, _)) if tag == "$undefined" => Ok(None),
        Some((tag, _)) if tag == "$bigint" => Err(NotPlain("a bigint")),
        Some((tag, _)) if tag == "$bytes" => Err(NotPlain("bytes")),
        Some((tag, _)) if tag == "$map" => Err(NotPlain("a Map")),
        Some((tag, _)) if tag == "$set" => Err(NotPlain("a Set")),
        Some((tag, _)) if tag == "$error" => Err(NotPlain("an Error")),
        Some(_) | None => Err(NotPlain("a malformed value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn an_object_that_looks_like_a_tag_is_itself() {
        let tricky =
            json!({"a": {"$date": "x"}, "b": [{"$fn": "f1", "more": 1}], "c": {"$object": {"$set": 1}}});
        let wire = from_plain(tricky.clone());
        assert_eq!(wire["a"], json!({"$object": {"$date": "x"}}));
        assert_eq!(to_plain(wire).unwrap(), tricky);
    }

    #[test]
    fn values_with_a_json_form_become_plain_json() {
        let wire = json!({
            "at": {"$date": "2026-01-01T00:00:00.000Z"}, "nan": {"$number": "NaN"}, "zero": {"$number": "-0"},
            "gone": {"$undefined": true}, "list": [{"$undefined": true}],
        });
        let plain = json!({"at": "2026-01-01T00:00:00.000Z", "nan": null, "zero": 0, "list": [null]});
        assert_eq!(to_plain(wire).unwrap(), plain);
        assert_eq!(to_plain(json!({"$undefined": true})).unwrap(), Value::Null);
    }

    #[test]
    fn what_json_has_no_words_for_is_refused() {
        for tag in ["$bigint", "$bytes", "$map", "$set", "$error", "$fn"] {
            assert!(to_plain(json!({"inside": [{tag: "1"}]})).is_err(), "{tag}");
        }
    }

    #[test]
    fn a_value_is_turned_to_its_depth_and_no_further() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert!(to_plain(nested(DEPTH_MAX)).is_ok());
        assert!(to_plain(nested(DEPTH_MAX + 1)).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop_oneof![3 => "[a-c$]{1,2}", 1 => prop::sample::select(TAGS.to_vec()).prop_map(str::to_owned),
            1 => Just(FUNCTION_TAG.to_owned())];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[a-z]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(5, 40, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_comes_back_as_it_went(value in any_json()) {
            prop_assert_eq!(to_plain(from_plain(value.clone())).unwrap(), value);
        }
    }
}

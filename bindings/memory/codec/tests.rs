//! Both dialects, compared with each other and with frames of other implementations.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn tagged(text: &str) -> Data {
    Dialect::Tagged.decode(text).unwrap()
}

#[test]
fn dialect_is_detected_by_the_prefix() {
    assert_eq!(Dialect::detect("fvj1:{}"), Dialect::Tagged);
    assert_eq!(Dialect::detect("{}"), Dialect::Plain);
    assert_eq!(Dialect::Tagged.decode("{}"), Err(DecodeError));
    assert_eq!(Dialect::Plain.decode("fvj1:{}"), Err(DecodeError));
}

#[test]
fn legacy_link_is_quoted_only_in_tagged_frames() {
    let quoted = "fvj1:{\"/quote\":{\"/\":{\"link@1\":{\"id\":\"of:x\",\"path\":[]}}}}";
    let bare = "{\"/\":{\"link@1\":{\"id\":\"of:x\",\"path\":[]}}}";
    assert_eq!(tagged(quoted), Dialect::Plain.decode(bare).unwrap());
    assert_eq!(Dialect::Tagged.encode(&tagged(quoted)), quoted);
    assert_eq!(Dialect::Plain.encode(&tagged(quoted)), bare);
}

#[test]
fn object_with_slash_key_and_tag_is_escaped_per_member() {
    let text = "fvj1:{\"/object\":{\"/a\":{\"/Bytes@1\":\"AAEC\"},\"b\":1}}";
    let data = tagged(text);
    assert_eq!(data.get("/a").unwrap(), &Data::Tag("/Bytes@1".to_owned(), Box::new("AAEC".into())));
    assert_eq!(Dialect::Tagged.encode(&data), text);
}

#[test]
fn unknown_tags_round_trip() {
    for text in [
        "fvj1:{\"/Later@7\":{\"/x\":{\"/Bytes@1\":\"AA\"},\"y\":[{\"/quote\":{}}]}}",
        "fvj1:[1,{\"/hole\":3},2]",
        "fvj1:{\"/Link@1\":{\"id\":\"of:x\",\"path\":[]}}",
    ] {
        assert_eq!(Dialect::Tagged.encode(&tagged(text)), text);
    }
}

#[test]
fn quoted_object_contains_no_tags() {
    let data = tagged("fvj1:{\"/quote\":{\"/Bytes@1\":\"AA\"}}");
    assert_eq!(data.get("/Bytes@1"), Some(&"AA".into()));
    assert_eq!(Dialect::Tagged.encode(&data), "fvj1:{\"/quote\":{\"/Bytes@1\":\"AA\"}}");
}

#[test]
fn members_are_sorted_by_bytes() {
    assert_eq!(
        Dialect::Tagged.encode(&tagged("fvj1:{\"b\":1,\"a\":2,\"é\":3}")),
        "fvj1:{\"a\":2,\"b\":1,\"é\":3}"
    );
}

#[test]
fn equal_numbers_have_one_form() {
    assert_eq!(tagged("fvj1:1.0"), tagged("fvj1:1"));
    assert_eq!(tagged("fvj1:1e2"), tagged("fvj1:100"));
    assert_eq!(
        Dialect::Plain.encode(&tagged("fvj1:[1.0,-2.5,9007199254740993]")),
        "[1,-2.5,9007199254740992.0]"
    );
    assert_eq!(tagged("fvj1:-0.0"), tagged("fvj1:{\"/SpecialNumber@1\":\"-0\"}"));
}

#[test]
fn undefined_member_is_absent() {
    let data = tagged("fvj1:{\"sessionToken\":{\"/Undefined@1\":null},\"x\":null}");
    assert_eq!(data.get("sessionToken"), None);
    assert_eq!(data.get("x"), Some(&Data::Null));
}

#[test]
fn frame_past_the_nesting_limit_is_rejected() {
    let nested = |depth: usize| format!("fvj1:{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(tagged(&nested(127)).depth(), 127);
    assert_eq!(Dialect::Tagged.decode(&nested(128)), Err(DecodeError));
    assert_eq!(Dialect::Tagged.decode(&nested(200_000)), Err(DecodeError));
}

#[test]
fn depth_counts_wire_levels() {
    assert_eq!(Data::from_literal(json!({"a": [1]})).depth(), 2);
    assert_eq!(Data::from_literal(json!({"/": {"link@1": {}}})).depth(), 4);
    assert_eq!(tagged("fvj1:{\"/Bytes@1\":\"\"}").depth(), 1);
}

fn any_data() -> impl Strategy<Value = Data> {
    let scalar = prop_oneof![
        Just(Data::Null),
        any::<bool>().prop_map(Data::Bool),
        any::<f64>().prop_map(Data::number),
        any::<i32>().prop_map(|number| Data::number(f64::from(number))),
        "[a-z/é\"]{0,4}".prop_map(Data::Text),
        "/[A-Z][a-z]{0,3}@[0-9]".prop_map(|tag| Data::Tag(tag, Box::new(Data::Null))),
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Data::List),
            prop::collection::btree_map("[a/]{0,3}", inner.clone(), 0..4).prop_map(Data::Map),
            inner.prop_map(|data| Data::Tag(
                "/Any@1".to_owned(),
                Box::new(Data::from_literal(data.to_plain()))
            )),
        ]
    })
}

proptest! {
    #[test]
    fn encoding_round_trips(data in any_data()) {
        let text = Dialect::Tagged.encode(&data);
        prop_assert_eq!(tagged(&text), data.clone());
        prop_assert_eq!(Data::from_canonical_json(&data.to_canonical_json()).unwrap(), data);
    }

    #[test]
    fn encoding_is_not_deeper_than_its_depth(data in any_data()) {
        fn levels(value: &Value) -> usize {
            match value {
                Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
                Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
                _ => 0,
            }
        }
        let wire: Value = serde_json::from_str(&data.to_canonical_json()).unwrap();
        prop_assert!(levels(&wire) <= data.depth());
    }

    #[test]
    fn decoding_any_text_does_not_panic(text in "\\PC{0,60}") {
        let _ = Dialect::detect(&text).decode(&text);
        let _ = Dialect::Tagged.decode(&format!("fvj1:{text}"));
    }
}

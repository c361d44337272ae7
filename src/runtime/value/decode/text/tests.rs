//! Both ways of building a value agree.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::super::super::engine::Engine;
use super::super::super::super::total::{MemoryTotal, Share};
use super::super::super::Text;
use crate::limits::Limits;
use crate::session::{RefHolder, ValueSource};

fn engine() -> Engine {
    let share = Share::replace(&MemoryTotal::new(usize::MAX));
    Engine::new(Arc::new(Limits::default()), share).unwrap()
}

/// What each way makes of a text: the value as it goes out again, or what is wrong with it.
fn both(engine: &Engine, text: &str) -> [Result<String, (String, String)>; 2] {
    let tree: Value = serde_json::from_str(text).unwrap();
    engine.enter(|ctx| {
        let guest = &engine.guest;
        [guest.decode(ctx, &tree, ValueSource::Handler), guest.decode_text(ctx, text, ValueSource::Handler)]
            .map(|decoded| {
                let value = decoded.map_err(|error| (error.message, error.path))?;
                let written = guest.encode::<Text>(ctx, &value, RefHolder::Handler, &mut Vec::new());
                written.map(|text| text.get().to_owned()).map_err(|error| ("out".to_owned(), error.path()))
            })
    })
}

#[test]
fn text_and_tree_decode_to_the_same_value() {
    let engine = engine();
    for text in [
        "1",
        "-0",
        " [ 1 , 2.5e3 , -7 , 12345678901234567890 ] ",
        r#"{"a":null,"b":[true,false],"c":{"d":"x\n\u00e9\ud83d\ude00"},"":0}"#,
        r#"{"$date":"2020-01-01T00:00:00.000Z"}"#,
        r#"{"$undefined":true}"#,
        r#"{"$number":"-Infinity"}"#,
        r#"{"$bigint":"123456789012345678901234567890"}"#,
        r#"{"$bytes":"AQID"}"#,
        r#"{ "$map" : [ [ 1 , {"$set":[1,2,{"$date":"2020-01-01T00:00:00.000Z"}]} ] , ["k",[]] ] }"#,
        r#"{"$map":[]}"#,
        r#"{"$set":[]}"#,
        r#"{"$set":[1],"$inc":{"a":1}}"#,
        r#"{"a":{"$object":{"$fn":"f1","b":{"$object":{"$date":1}}}}}"#,
        r#"{"$error":{"name":"TypeError","message":"m","more":[1],"cause":{"$error":{}}}}"#,
        "{}",
        "[]",
        "[[],{}]",
    ] {
        let [tree, text_value] = both(&engine, text);
        assert!(tree.is_ok(), "{text}: {tree:?}");
        assert_eq!(tree, text_value, "{text}");
    }
}

#[test]
fn text_and_tree_refuse_alike() {
    let engine = engine();
    for text in [
        r#"{"a":[{"$date":"nope"}]}"#,
        r#"{"a":[{"$date":5}]}"#,
        r#"{"$map":[[1]]}"#,
        r#"{"$map":[[1,2,3]]}"#,
        r#"{"$map":[[]]}"#,
        r#"{"$map":[1]}"#,
        r#"{"$map":[[1,{"$set":[{"$number":"5"}]}]]}"#,
        r#"{"$error":{"name":5}}"#,
        r#"{"a":{"$fn":5}}"#,
        r#"{"name":[],"$fn":"h1"}"#,
        r#"{"$bytes":"%"}"#,
    ] {
        let [tree, text_value] = both(&engine, text);
        assert!(tree.is_err(), "{text}");
        assert_eq!(tree, text_value, "{text}");
    }
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(both(&engine, &deep(100)).iter().all(Result::is_ok));
    assert!(both(&engine, &deep(101)).iter().all(Result::is_err));
    let long = json!({"$fn": "x".repeat(257)}).to_string();
    assert!(both(&engine, &long).iter().all(Result::is_err));
}

#[test]
fn text_that_a_tree_cannot_represent_is_refused() {
    let engine = engine();
    engine.enter(|ctx| {
        for text in ["1e999", r#""\ud800""#, "", "{", "[1", r#"{"a""#, r#"{"$set":"#, "\"", "[1 2]"] {
            assert!(engine.guest.decode_text(ctx, text, ValueSource::Handler).is_err(), "{text}");
        }
    });
}

#[test]
fn nested_tags_are_read_a_bounded_number_of_times() {
    let engine = engine();
    let text = |depth: usize| format!("{}0{}", r#"{"$object":{"a":"#.repeat(depth), "}}".repeat(depth));
    engine.enter(|ctx| {
        assert!(engine.guest.decode_text(ctx, &text(40), ValueSource::Handler).is_ok());
        let wide = format!("[{}0]", format!("{},", text(40)).repeat(2_000));
        assert!(engine.guest.decode_text(ctx, &wide, ValueSource::Handler).is_ok());
    });
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let keys = prop_oneof![
        "[a-c\"]{0,2}".prop_map(String::from),
        Just("$set".to_owned()),
        Just("$object".to_owned())
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((keys.clone(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_built_alike_from_text_and_tree(value in json_value()) {
        let engine = engine();
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let [tree, text_value] = both(&engine, &text);
            prop_assert_eq!(tree, text_value);
        }
    }
}

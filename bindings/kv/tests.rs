//! The bindings on real SQLite, in memory and in a file.

use serde_json::{Value, json};

use super::super::testing::{handlers_of, run};
use super::*;
use crate::package::NamedHandlers as Handlers;

fn opened(config: &Value) -> Result<Handlers, String> {
    KeyValues::open(config, Path::new(".")).map(|store| handlers_of(package(store)))
}

fn store(config: Value) -> Handlers {
    opened(&config).unwrap()
}

#[tokio::test]
async fn value_is_readable_until_deleted() {
    let kv = store(json!({}));
    let absent = json!({"$undefined": true});
    assert_eq!(run(&kv, "kv.get", json!({"key": "a"}), "ada").await.unwrap(), absent);
    for value in [json!(null), json!({"$date": "2026-01-01T00:00:00.000Z"}), json!([1, {"b": "ü"}])] {
        run(&kv, "kv.set", json!({"key": "a", "value": value}), "ada").await.unwrap();
        assert_eq!(run(&kv, "kv.get", json!({"key": "a"}), "ada").await.unwrap(), value);
    }
    assert_eq!(run(&kv, "kv.delete", json!({"key": "a"}), "ada").await.unwrap(), json!(true));
    assert_eq!(run(&kv, "kv.delete", json!({"key": "a"}), "ada").await.unwrap(), json!(false));
    assert_eq!(run(&kv, "kv.get", json!({"key": "a"}), "ada").await.unwrap(), absent);
}

#[tokio::test]
async fn keys_of_other_principals_are_invisible() {
    let kv = store(json!({}));
    run(&kv, "kv.set", json!({"key": "a", "value": 1}), "ada").await.unwrap();
    assert_eq!(run(&kv, "kv.get", json!({"key": "a"}), "bob").await.unwrap(), json!({"$undefined": true}));
    assert_eq!(run(&kv, "kv.list", json!({}), "bob").await.unwrap(), json!({"keys": []}));
    assert_eq!(run(&kv, "kv.delete", json!({"key": "a"}), "bob").await.unwrap(), json!(false));
}

#[tokio::test]
async fn list_returns_keys_by_prefix_in_pages() {
    let kv = store(json!({}));
    for key in ["a/1", "a/2", "a/3", "a0", "A/1", "a%", "b"] {
        run(&kv, "kv.set", json!({"key": key, "value": 1}), "ada").await.unwrap();
    }
    let first = run(&kv, "kv.list", json!({"prefix": "a/", "limit": 2}), "ada").await.unwrap();
    assert_eq!(first, json!({"keys": ["a/1", "a/2"], "cursor": "a/2"}));
    let next = json!({"prefix": "a/", "limit": 2, "cursor": "a/2"});
    assert_eq!(run(&kv, "kv.list", next, "ada").await.unwrap(), json!({"keys": ["a/3"]}));
    let all = run(&kv, "kv.list", json!({}), "ada").await.unwrap();
    assert_eq!(all, json!({"keys": ["A/1", "a%", "a/1", "a/2", "a/3", "a0", "b"]}));
    let exactly = run(&kv, "kv.list", json!({"limit": 7}), "ada").await.unwrap();
    assert_eq!(exactly.get("cursor"), None);
}

#[tokio::test]
async fn cas_distinguishes_absent_from_null() {
    let kv = store(json!({}));
    let cas = async |input: Value| run(&kv, "kv.cas", input, "ada").await.unwrap();
    assert_eq!(cas(json!({"key": "n", "expected": null, "value": 1})).await, json!(false));
    assert_eq!(cas(json!({"key": "n", "value": null})).await, json!(true));
    assert_eq!(cas(json!({"key": "n", "value": 1})).await, json!(false));
    assert_eq!(cas(json!({"key": "n", "expected": null, "value": {"a": 1, "b": 2}})).await, json!(true));
    // The order of members does not matter.
    assert_eq!(cas(json!({"key": "n", "expected": {"b": 2, "a": 1}, "value": 3})).await, json!(true));
    assert_eq!(run(&kv, "kv.get", json!({"key": "n"}), "ada").await.unwrap(), json!(3));
}

#[tokio::test]
async fn concurrent_cas_succeeds_once() {
    let kv = store(json!({}));
    run(&kv, "kv.set", json!({"key": "n", "value": 0}), "ada").await.unwrap();
    let swaps = (1..=20).map(|n| run(&kv, "kv.cas", json!({"key": "n", "expected": 0, "value": n}), "ada"));
    let won = futures_util::future::join_all(swaps).await;
    assert_eq!(won.into_iter().filter(|outcome| outcome.as_ref().unwrap() == &json!(true)).count(), 1);
}

#[tokio::test]
async fn set_past_size_or_key_limit_is_rejected() {
    let kv = store(json!({"valueBytesMax": 4, "keysMax": 2}));
    let set =
        async |key: &str, value: &str| run(&kv, "kv.set", json!({"key": key, "value": value}), "ada").await;
    assert!(set("a", "xx").await.is_ok());
    assert!(set("a", "xxx").await.unwrap_err().is(Kind::InvalidInput));
    assert!(set(&"k".repeat(KEY_BYTES_MAX), "").await.is_ok());
    assert!(set(&"k".repeat(KEY_BYTES_MAX + 1), "").await.unwrap_err().is(Kind::InvalidInput));
    assert!(set("c", "").await.unwrap_err().message.contains("full"));
    assert!(set("a", "y").await.is_ok());
    run(&kv, "kv.delete", json!({"key": "a"}), "ada").await.unwrap();
    assert!(set("c", "").await.is_ok());
    assert!(run(&kv, "kv.set", json!({"key": "c", "value": 1}), "bob").await.is_ok());
}

#[tokio::test]
async fn values_in_a_file_survive_reopening() {
    let path = std::env::temp_dir().join(format!("scomp-kv-{}.sqlite", uuid::Uuid::new_v4()));
    let config = json!({"path": path, "keysMax": 1});
    run(&store(config.clone()), "kv.set", json!({"key": "a", "value": 1}), "ada").await.unwrap();
    let again = store(config);
    assert_eq!(run(&again, "kv.get", json!({"key": "a"}), "ada").await.unwrap(), json!(1));
    assert!(run(&again, "kv.set", json!({"key": "b", "value": 1}), "ada").await.is_err());
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
}

#[tokio::test]
async fn open_of_missing_folder_reports_the_error() {
    let result = opened(&json!({"path": "/nowhere/at/all/kv.sqlite"}));
    assert!(result.err().is_some_and(|message| message.contains("unable to open")));
}

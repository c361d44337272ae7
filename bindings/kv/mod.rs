//! A key-value store for scripts, in an SQLite file or in memory.
//!
//! Each principal has its own namespace, taken from the session and never from the input. Values
//! are stored in their wire form, so that a `Date` or a `Map` is restored with its type.

mod store;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Handlers, PackageContext, PackageInstance};
use crate::binding::{BindingError, Call, typed};
use crate::rpc::Kind;
use store::{EntryKey, Store};

/// Longest key. Keys are indexed; anything longer belongs in the value.
const KEY_BYTES_MAX: usize = 512;

/// Default longest value, far below the longest message.
const VALUE_BYTES_DEFAULT: usize = 1 << 20;

/// Default number of keys that a namespace can hold.
const KEYS_DEFAULT: u64 = 100_000;

/// Keys per page unless the call sets `limit`.
const PAGE_KEYS_DEFAULT: usize = 100;

/// Most keys per page: half a mebibyte of the longest ones. The cursor leads to the next page.
const PAGE_KEYS_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    path: Option<String>,
    #[serde(default = "value_bytes_default")]
    value_bytes_max: usize,
    #[serde(default = "keys_default")]
    keys_max: u64,
}

fn value_bytes_default() -> usize {
    VALUE_BYTES_DEFAULT
}

fn keys_default() -> u64 {
    KEYS_DEFAULT
}

#[derive(Deserialize)]
struct KeyInput {
    key: String,
}

#[derive(Deserialize)]
struct SetInput {
    key: String,
    value: Value,
}

#[derive(Deserialize)]
struct CasInput {
    key: String,
    #[serde(default, deserialize_with = "deserialize_present")]
    expected: Option<Value>,
    value: Value,
}

/// Keeps `null`, which is a value that may be expected, apart from an absent field.
fn deserialize_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct ListInput {
    #[serde(default)]
    prefix: String,
    cursor: Option<String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct KeyPage {
    keys: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// Opens the store and creates its handlers.
pub fn open(context: &PackageContext<'_>) -> Result<PackageInstance, String> {
    let config = Config::deserialize(context.config).map_err(|error| error.to_string())?;
    let path = config.path.as_ref().map(|path| context.folder.join(path));
    let store = Store::open(path.as_deref(), config.keys_max).map_err(|error| error.to_string())?;
    Ok(handlers(store, &config).into())
}

fn handlers(store: Store, config: &Config) -> Handlers {
    let value_bytes_max = config.value_bytes_max;
    let (get, set, delete, list, cas) = (store.clone(), store.clone(), store.clone(), store.clone(), store);
    vec![
        ("kv.get", typed(move |input: KeyInput, call| get_value(get.clone(), input, call))),
        ("kv.set", typed(move |input: SetInput, call| set_value(set.clone(), input, call, value_bytes_max))),
        ("kv.delete", typed(move |input: KeyInput, call| delete_key(delete.clone(), input, call))),
        ("kv.list", typed(move |input: ListInput, call| list_keys(list.clone(), input, call))),
        ("kv.cas", typed(move |input: CasInput, call| swap_value(cas.clone(), input, call, value_bytes_max))),
    ]
}

async fn get_value(store: Store, input: KeyInput, call: Call) -> Result<Value, BindingError> {
    match store.get(entry_key(&call, input.key)?).await? {
        Some(text) => Ok(serde_json::from_str(&text)?),
        None => Ok(json!({"$undefined": true})),
    }
}

async fn set_value(store: Store, input: SetInput, call: Call, bytes_max: usize) -> Result<(), BindingError> {
    let text = encode_value(&call, &input.value, bytes_max)?;
    Ok(store.set(entry_key(&call, input.key)?, text).await?)
}

async fn delete_key(store: Store, input: KeyInput, call: Call) -> Result<bool, BindingError> {
    Ok(store.delete(entry_key(&call, input.key)?).await?)
}

async fn list_keys(store: Store, input: ListInput, call: Call) -> Result<KeyPage, BindingError> {
    let namespace = call.session.principal.name.clone();
    let limit = input.limit.unwrap_or(PAGE_KEYS_DEFAULT).clamp(1, PAGE_KEYS_MAX);
    // One key more than requested shows whether there is a next page.
    let mut keys = store.list(namespace, input.prefix, input.cursor, limit + 1).await?;
    let has_more = keys.len() > limit;
    keys.truncate(limit);
    let cursor = keys.last().filter(|_| has_more).cloned();
    Ok(KeyPage { keys, cursor })
}

async fn swap_value(
    store: Store,
    input: CasInput,
    call: Call,
    bytes_max: usize,
) -> Result<bool, BindingError> {
    let text = encode_value(&call, &input.value, bytes_max)?;
    Ok(store.swap(entry_key(&call, input.key)?, input.expected, text).await?)
}

/// Checks the length of a key and puts it into the namespace of the caller's principal.
fn entry_key(call: &Call, key: String) -> Result<EntryKey, BindingError> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let message = format!("expected a key of 1 to {KEY_BYTES_MAX} bytes, got {}", key.len());
        return Err(BindingError::of_kind(Kind::InvalidInput, message));
    }
    Ok(EntryKey { namespace: call.session.principal.name.clone(), key })
}

fn encode_value(call: &Call, value: &Value, bytes_max: usize) -> Result<String, BindingError> {
    if !call.functions.is_empty() {
        return Err(BindingError::of_kind(Kind::InvalidInput, "value: a function cannot be stored"));
    }
    let text = serde_json::to_string(value)?;
    if text.len() > bytes_max {
        let message = format!("expected a value of at most {bytes_max} bytes, got {}", text.len());
        return Err(BindingError::of_kind(Kind::InvalidInput, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;

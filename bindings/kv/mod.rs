//! A key-value store for scripts, in an SQLite file or in memory.
//!
//! Each principal has its own namespace, taken from the session and never from the input. Values
//! are stored in their wire form, so that a `Date` or a `Map` is restored with its type.

mod store;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{PackageContext, PackageInstance};
use crate::binding::{BindingError, Call, State};
use crate::package::Package;
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

/// Keeps `null`, which is a value that may be expected, apart from an absent field.
fn deserialize_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Serialize, schemars::JsonSchema)]
struct KeyPage {
    keys: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// State that the handlers share.
struct KeyValues {
    store: Store,
    value_bytes_max: usize,
}

/// Opens the store and binds its functions. What is declared of them is in the declaration file.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let key_values = KeyValues::open(&context.config, &context.folder)?;
    Ok(context.bind_package(package(key_values))?.into())
}

impl KeyValues {
    fn open(config: &Value, folder: &Path) -> Result<Self, String> {
        let config = Config::deserialize(config).map_err(|error| error.to_string())?;
        let path = config.path.as_ref().map(|path| folder.join(path));
        let store = Store::open(path.as_deref(), config.keys_max).map_err(|error| error.to_string())?;
        Ok(Self { store, value_bytes_max: config.value_bytes_max })
    }
}

fn package(key_values: KeyValues) -> Package {
    Package::new("kv")
        .state(key_values)
        .add::<get_value>()
        .add::<set_value>()
        .add::<delete_key>()
        .add::<list_keys>()
        .add::<swap_value>()
}

/// Returns the value of a key.
#[scomp::binding(name = "kv.get")]
async fn get_value(kv: State<KeyValues>, key: String, call: Call) -> Result<Value, BindingError> {
    match kv.store.get(entry_key(&call, key)?).await? {
        Some(text) => Ok(serde_json::from_str(&text)?),
        None => Ok(json!({"$undefined": true})),
    }
}

/// Stores a value.
#[scomp::binding(name = "kv.set")]
async fn set_value(kv: State<KeyValues>, key: String, value: Value, call: Call) -> Result<(), BindingError> {
    let text = encode_value(&call, &value, kv.value_bytes_max)?;
    Ok(kv.store.set(entry_key(&call, key)?, text).await?)
}

/// Deletes a key.
#[scomp::binding(name = "kv.delete")]
async fn delete_key(kv: State<KeyValues>, key: String, call: Call) -> Result<bool, BindingError> {
    Ok(kv.store.delete(entry_key(&call, key)?).await?)
}

/// Lists keys.
#[scomp::binding(name = "kv.list")]
async fn list_keys(
    kv: State<KeyValues>,
    #[serde(default)] prefix: String,
    cursor: Option<String>,
    limit: Option<usize>,
    call: Call,
) -> Result<KeyPage, BindingError> {
    let namespace = call.session.principal.name.clone();
    let limit = limit.unwrap_or(PAGE_KEYS_DEFAULT).clamp(1, PAGE_KEYS_MAX);
    // One key more than requested shows whether there is a next page.
    let mut keys = kv.store.list(namespace, prefix, cursor, limit + 1).await?;
    let has_more = keys.len() > limit;
    keys.truncate(limit);
    let cursor = keys.last().filter(|_| has_more).cloned();
    Ok(KeyPage { keys, cursor })
}

/// Stores a value if the current one is as expected.
#[scomp::binding(name = "kv.cas")]
async fn swap_value(
    kv: State<KeyValues>,
    key: String,
    #[serde(default, deserialize_with = "deserialize_present")] expected: Option<Value>,
    value: Value,
    call: Call,
) -> Result<bool, BindingError> {
    let text = encode_value(&call, &value, kv.value_bytes_max)?;
    Ok(kv.store.swap(entry_key(&call, key)?, expected, text).await?)
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

//! A key-value store for scripts, in an SQLite file or in memory.
//!
//! Each principal has a namespace of its own, taken from the session and never from the input. Values are kept in
//! their wire form, so a `Date` or a `Map` comes back as what it was.

mod store;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Handlers, PackageContext, PackageInstance};
use crate::binding::{BindingError, Call, typed};
use crate::rpc::Kind;
use store::{Place, Store};

/// Longest key, in bytes: it stands in an index, and a longer one is data.
const KEY_BYTES_MAX: usize = 512;

/// Longest value unless the configuration says otherwise: two pages of data, and far below a message.
const VALUE_BYTES_DEFAULT: usize = 1 << 20;

/// Keys of a namespace unless the configuration says otherwise.
const KEYS_DEFAULT: u64 = 100_000;

/// Keys of one answer unless the call says otherwise.
const LISTED_DEFAULT: usize = 100;

/// Most keys of one answer: half a mebibyte of the longest ones. Whoever wants more has the cursor.
const LISTED_MAX: usize = 1000;

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
    #[serde(default, deserialize_with = "present")]
    expected: Option<Value>,
    value: Value,
}

/// `null` is a value that may be expected; only an absent field means that there is none.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
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
struct Listed {
    keys: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// Opens the store and makes its handlers.
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
    match store.get(place(&call, input.key)?).await? {
        Some(text) => Ok(serde_json::from_str(&text)?),
        None => Ok(json!({"$undefined": true})),
    }
}

async fn set_value(store: Store, input: SetInput, call: Call, bytes_max: usize) -> Result<(), BindingError> {
    let text = storable(&call, &input.value, bytes_max)?;
    Ok(store.set(place(&call, input.key)?, text).await?)
}

async fn delete_key(store: Store, input: KeyInput, call: Call) -> Result<bool, BindingError> {
    Ok(store.delete(place(&call, input.key)?).await?)
}

async fn list_keys(store: Store, input: ListInput, call: Call) -> Result<Listed, BindingError> {
    let namespace = call.session.principal.name.clone();
    let limit = input.limit.unwrap_or(LISTED_DEFAULT).clamp(1, LISTED_MAX);
    // One more than asked for tells whether there is more to come.
    let mut keys = store.list(namespace, input.prefix, input.cursor, limit + 1).await?;
    let has_more = keys.len() > limit;
    keys.truncate(limit);
    let cursor = keys.last().filter(|_| has_more).cloned();
    Ok(Listed { keys, cursor })
}

async fn swap_value(
    store: Store,
    input: CasInput,
    call: Call,
    bytes_max: usize,
) -> Result<bool, BindingError> {
    let text = storable(&call, &input.value, bytes_max)?;
    Ok(store.swap(place(&call, input.key)?, input.expected, text).await?)
}

fn place(call: &Call, key: String) -> Result<Place, BindingError> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let message = format!("expected a key of 1 to {KEY_BYTES_MAX} bytes, got {}", key.len());
        return Err(BindingError::of_kind(Kind::InvalidInput, message));
    }
    Ok(Place { namespace: call.session.principal.name.clone(), key })
}

fn storable(call: &Call, value: &Value, bytes_max: usize) -> Result<String, BindingError> {
    if !call.functions.is_empty() {
        return Err(BindingError::of_kind(Kind::InvalidInput, "a function cannot be stored"));
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

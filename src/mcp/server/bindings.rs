//! The tools `search` and `describe`: what scripts may call, found by words and written as TypeScript.
//!
//! A server may have thousands of bindings, so a search lets other work run in between.

use serde_json::{Map, Value, json};

use super::arguments::{DescribeInput, Detail, SearchInput};
use crate::catalog::Catalog;
use crate::catalog::search::{Search, closest};
use crate::catalog::typescript;
use crate::protocol::declaration::Declaration;

/// Bindings that are searched before other work runs. Each takes some microseconds.
const SLICE_STEPS_MAX: usize = 64;

/// Bytes of a description in a brief hit: the first sentence says what a binding does.
const BRIEF_BYTES_MAX: usize = 160;

/// Names that are suggested for one that does not exist.
const SUGGESTIONS_MAX: usize = 3;

/// Bytes of TypeScript in one answer. More is read by no model; what is left out is named.
const TYPES_BYTES_MAX: usize = 64 << 10;

/// The bindings that fit a query best.
pub(super) async fn search(catalog: &Catalog, input: &SearchInput) -> Value {
    let mut search = Search::new(&input.query);
    for (step, entry) in catalog.iter().enumerate() {
        search.consider(&entry.declaration);
        if step % SLICE_STEPS_MAX == SLICE_STEPS_MAX - 1 {
            tokio::task::yield_now().await;
        }
    }
    let hits = search.finish(input.limit());
    let found = hits.iter().filter_map(|hit| catalog.get(&hit.name));
    let hits: Vec<Value> = found.map(|entry| describe_hit(&entry.declaration, input.detail)).collect();
    json!({"bindings": hits, "total": catalog.len()})
}

fn describe_hit(declaration: &Declaration, detail: Detail) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), declaration.name.clone().into());
    match detail {
        Detail::Brief => {
            if let Some(description) = &declaration.description {
                fields.insert("description".to_owned(), brief(description).into());
            }
        }
        Detail::Signature => {
            let bare = Declaration { description: None, effects: Vec::new(), ..declaration.clone() };
            fields.insert("typescript".to_owned(), typescript::declarations([&bare]).trim_end().into());
        }
        Detail::Full => {
            fields.insert("typescript".to_owned(), typescript::declarations([declaration]).trim_end().into());
        }
    }
    if !declaration.effects.is_empty() && detail != Detail::Full {
        fields.insert("effects".to_owned(), json!(declaration.effects));
    }
    Value::Object(fields)
}

/// The first line of a description.
fn brief(description: &str) -> String {
    let line = description.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let end = line.floor_char_boundary(BRIEF_BYTES_MAX);
    match line.get(..end) {
        Some(start) if end < line.len() => format!("{start}…"),
        _ => line.to_owned(),
    }
}

/// TypeScript of the named bindings, or of all below a name, and what was not found.
pub(super) fn describe(catalog: &Catalog, input: &DescribeInput) -> Value {
    let mut wanted: Vec<&Declaration> = Vec::new();
    let mut unknown = Vec::new();
    for name in &input.names {
        let prefix = format!("{name}.");
        let is_meant = |binding: &str| binding == name || binding.starts_with(&prefix);
        let found: Vec<_> = catalog.iter().filter(|entry| is_meant(entry.name())).collect();
        if found.is_empty() {
            let names = catalog.iter().map(|entry| entry.name());
            unknown.push(json!({"name": name, "closest": closest(names, name, SUGGESTIONS_MAX)}));
        }
        wanted.extend(found.into_iter().map(|entry| &entry.declaration));
    }
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    wanted.dedup_by(|a, b| a.name == b.name);
    let mut left_out: Vec<&str> = Vec::new();
    let mut bytes = 0;
    // Each by itself tells what it takes; the text of all of them together is hardly ever longer.
    wanted.retain(|declaration| {
        bytes += typescript::declarations([*declaration]).len();
        let fits = bytes <= TYPES_BYTES_MAX;
        if !fits {
            left_out.push(&declaration.name);
        }
        fits
    });
    let mut answer = json!({"typescript": typescript::declarations(wanted)});
    for (field, value) in [("unknown", json!(unknown)), ("leftOut", json!(left_out))] {
        if value.as_array().is_some_and(|items| !items.is_empty()) {
            answer[field] = value;
        }
    }
    answer
}

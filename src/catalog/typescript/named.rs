//! Names for the targets of `$ref`, so that a type is written once and may refer to itself.
//!
//! Two bindings that define the same `Order` share it; two that mean different things by it do not. Same means: the same
//! text, and the same text of everything it refers to. Bodies are written from a queue, not on the way, so that a long
//! chain of references needs no stack.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::text::pascal_case;
use crate::schema::reference;

/// Most named types of one text; further ones are `unknown`.
/// More than a model reads, and each costs a look at all it refers to.
pub(super) const NAMED_TYPES_MAX: usize = 2_000;

/// Most subschemas that are looked at to find a type inside itself; one with more in place is taken to be.
const IN_PLACE_VISITS_MAX: usize = 2_000;

/// Bytes of schemas that are compared for one text; types found after that share with none.
const COMPARED_BYTES_MAX: usize = 64 << 20;

/// Names that our own text uses as the library means them.
const LIBRARY_NAMES: [&str; 2] = ["Promise", "Record"];

/// A type whose body is still to be written.
pub(super) struct Pending<'a> {
    pub(super) name: String,
    pub(super) root: &'a Value,
    pub(super) schema: &'a Value,
    pub(super) label: String,
}

#[derive(Default)]
pub(super) struct Named<'a> {
    by_meaning: HashMap<(String, u64), String>,
    by_address: HashMap<usize, String>,
    taken: HashSet<String>,
    compared_bytes: usize,
    pending: VecDeque<Pending<'a>>,
}

impl<'a> Named<'a> {
    /// The name of what `reference` means in the document `root`; `label` tells documents apart.
    pub(super) fn name_of(&mut self, root: &'a Value, label: &str, reference: &str) -> Option<String> {
        let schema = reference::resolve(root, reference)?;
        let address = std::ptr::from_ref(schema).addr();
        if let Some(name) = self.by_address.get(&address) {
            return Some(name.clone());
        }
        if self.taken.len() >= NAMED_TYPES_MAX {
            return None;
        }
        let wanted = match reference.rsplit(['/', '#']).next() {
            Some("") | None => label.to_owned(),
            Some(last) => pascal_case(last),
        };
        let meaning = (wanted.clone(), self.meaning_of(root, schema));
        let name = match self.by_meaning.get(&meaning) {
            Some(name) => name.clone(),
            None => {
                let name = self.free_name(&wanted, label);
                self.by_meaning.insert(meaning, name.clone());
                self.pending.push_back(Pending { name: name.clone(), root, schema, label: label.to_owned() });
                name
            }
        };
        self.by_address.insert(address, name.clone());
        Some(name)
    }

    pub(super) fn next_pending(&mut self) -> Option<Pending<'a>> {
        self.pending.pop_front()
    }

    /// A number that is the same for the same text with the same texts behind its references.
    fn meaning_of(&mut self, root: &Value, schema: &Value) -> u64 {
        let mut texts = BTreeSet::new();
        let mut seen = HashSet::new();
        let mut pending = vec![schema];
        while let Some(target) = pending.pop() {
            if !seen.insert(std::ptr::from_ref(target).addr()) {
                continue;
            }
            if self.compared_bytes > COMPARED_BYTES_MAX {
                return self.taken.len() as u64;
            }
            let text = target.to_string();
            self.compared_bytes += text.len();
            texts.insert(text);
            pending.extend(references_in(target).into_iter().filter_map(|to| reference::resolve(root, to)));
        }
        let mut hasher = DefaultHasher::new();
        texts.hash(&mut hasher);
        hasher.finish()
    }

    fn free_name(&mut self, wanted: &str, label: &str) -> String {
        let scoped = format!("{label}{wanted}");
        let numbered = (2..).map(|number| format!("{scoped}{number}"));
        let mut candidates = [wanted.to_owned(), scoped.clone()].into_iter().chain(numbered);
        let is_free = |name: &String| !LIBRARY_NAMES.contains(&name.as_str()) && !self.taken.contains(name);
        let name = candidates.find(is_free).unwrap_or(scoped);
        self.taken.insert(name.clone());
        name
    }
}

/// Whether a type is part of itself in the same place (`type A = A | null`), which TypeScript cannot say.
pub(super) fn contains_itself(root: &Value, schema: &Value) -> bool {
    let mut seen = HashSet::new();
    let mut pending = parts_in_place(root, schema);
    while let Some(part) = pending.pop() {
        if std::ptr::eq(part, schema) || seen.len() > IN_PLACE_VISITS_MAX {
            return true;
        }
        if seen.insert(std::ptr::from_ref(part).addr()) {
            pending.extend(parts_in_place(root, part));
        }
    }
    false
}

fn parts_in_place<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    let references = ["$ref", "$dynamicRef"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_str());
    lists.flatten().chain(references.filter_map(|reference| reference::resolve(root, reference))).collect()
}

fn references_in(schema: &Value) -> Vec<&str> {
    let mut references = Vec::new();
    let mut pending = vec![schema];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(members) => {
                let named =
                    ["$ref", "$dynamicRef"].into_iter().filter_map(|keyword| members.get(keyword)?.as_str());
                references.extend(named);
                pending.extend(members.values());
            }
            Value::Array(items) => pending.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    references
}

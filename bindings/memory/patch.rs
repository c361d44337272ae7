//! The nine patch operations, and the paths that they change.
//!
//! A path leads through objects and lists only: a tagged value is replaced as a whole. A failed
//! patch may leave the document partly changed; the commit around it is then rolled back.

use std::collections::{BTreeMap, HashSet};

use super::codec::{DOCUMENT_DEPTH_MAX, Data};
use super::path::{Path, from_pointer, parse_index, to_pointer};

/// Most items that one operation adds to a list; for more, a client sets the document.
pub(super) const PATCH_ITEMS_MAX: usize = 10_000;

/// Most patches in one operation: the time of some is proportional to the size of the document.
pub(super) const PATCHES_MAX: usize = 1_000;

/// Why a patch is malformed or does not apply to its document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchError {
    #[error("{0}: expected {1}")]
    Field(&'static str, &'static str),
    #[error("{0}: expected at most {PATCH_ITEMS_MAX} items")]
    TooManyItems(&'static str),
    #[error("invalid JSON pointer: {0}")]
    Pointer(String),
    #[error("missing path {0}")]
    Missing(String),
    #[error("path is not traversable at {0}")]
    NotTraversable(String),
    #[error("array index out of bounds at {0}")]
    Index(String),
    #[error("target is not {1} at {0}")]
    Kind(String, &'static str),
    #[error("cannot remove or move the root of a document")]
    Root,
    #[error("cannot move a value into its own descendant")]
    IntoItself,
    #[error("by: expected a finite number other than 0")]
    Amount,
    #[error("document is nested more than {DOCUMENT_DEPTH_MAX} levels deep")]
    TooDeep,
    #[error("patched document: expected an object")]
    NotADocument,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Patch {
    Replace { path: Path, value: Data },
    Add { path: Path, value: Data },
    Remove { path: Path },
    Move { from: Path, path: Path },
    Splice { path: Path, index: usize, remove: usize, add: Vec<Data> },
    Append { path: Path, values: Vec<Data>, creates_key: bool },
    AddUnique { path: Path, values: Vec<Data>, creates_key: bool },
    RemoveByValue { path: Path, value: Data },
    Increment { path: Path, by: f64, creates_key: bool },
}

impl Patch {
    pub(super) fn from_data(data: &Data) -> Result<Self, PatchError> {
        let path = parse_pointer(data, "path")?;
        let value = || data.get("value").cloned().or_else(|| get_undefined(data, "value"));
        let value = || value().ok_or(PatchError::Field("value", "a value"));
        let creates_key = data.get("createsKey").and_then(Data::as_bool).unwrap_or(false);
        match data.get("op").and_then(Data::as_str) {
            Some("replace") => Ok(Self::Replace { path, value: value()? }),
            Some("add") => Ok(Self::Add { path, value: value()? }),
            Some("remove") => Ok(Self::Remove { path }),
            Some("move") => Ok(Self::Move { from: parse_pointer(data, "from")?, path }),
            Some("splice") => Ok(Self::Splice {
                path,
                index: parse_count(data, "index")?,
                remove: parse_count(data, "remove")?,
                add: parse_list(data, "add")?,
            }),
            Some("append") => Ok(Self::Append { path, values: parse_list(data, "values")?, creates_key }),
            Some("add-unique") => {
                Ok(Self::AddUnique { path, values: parse_list(data, "values")?, creates_key })
            }
            Some("remove-by-value") => Ok(Self::RemoveByValue { path, value: value()? }),
            Some("increment") => {
                let by = data.get("by").and_then(Data::as_f64).filter(|by| by.is_finite() && *by != 0.0);
                Ok(Self::Increment { path, by: by.ok_or(PatchError::Amount)?, creates_key })
            }
            Some(_) | None => Err(PatchError::Field("op", "a patch operation")),
        }
    }

    pub(super) fn changed_paths(&self) -> Vec<&[String]> {
        match self {
            Self::Move { from, path } => vec![from, path],
            Self::Replace { path, .. }
            | Self::Add { path, .. }
            | Self::Remove { path }
            | Self::Splice { path, .. }
            | Self::Append { path, .. }
            | Self::AddUnique { path, .. }
            | Self::RemoveByValue { path, .. }
            | Self::Increment { path, .. } => vec![path],
        }
    }

    /// Whether the patch adds or removes keys of the objects around its paths.
    pub(super) fn changes_keys(&self) -> bool {
        match self {
            Self::Add { .. } | Self::Remove { .. } | Self::Move { .. } => true,
            Self::Append { creates_key, .. }
            | Self::AddUnique { creates_key, .. }
            | Self::Increment { creates_key, .. } => *creates_key,
            Self::Replace { .. } | Self::Splice { .. } | Self::RemoveByValue { .. } => false,
        }
    }

    /// Whether the patch may nest the document deeper than allowed. An object takes up to two
    /// levels on the wire.
    fn may_deepen(&self) -> bool {
        let exceeds = |path: &Path, added: usize| 2 * (path.len() + 1) + added > DOCUMENT_DEPTH_MAX;
        let deepest = |values: &[Data]| values.iter().map(Data::depth).max().unwrap_or(0);
        match self {
            Self::Replace { path, value } | Self::Add { path, value } => exceeds(path, value.depth()),
            Self::Splice { path, add: values, .. }
            | Self::Append { path, values, .. }
            | Self::AddUnique { path, values, .. } => exceeds(path, deepest(values)),
            Self::Increment { path, .. } => exceeds(path, 0),
            Self::Move { from, path } => path.len() > from.len(),
            Self::Remove { .. } | Self::RemoveByValue { .. } => false,
        }
    }

    fn apply(&self, root: &mut Data) -> Result<(), PatchError> {
        match self {
            Self::Replace { path, value } => replace(root, path, value.clone()),
            Self::Add { path, value } => add(root, path, value.clone()),
            Self::Remove { path } => remove(root, path).map(drop),
            Self::Move { from, path } => move_value(root, from, path),
            Self::Splice { path, index, remove, add } => splice(root, path, *index, *remove, add),
            Self::Append { path, values, .. } => {
                find_or_create_list(root, path)?.extend(values.iter().cloned());
                Ok(())
            }
            Self::AddUnique { path, values, .. } => {
                add_unique(find_or_create_list(root, path)?, values);
                Ok(())
            }
            Self::RemoveByValue { path, value } => {
                if let Some(Data::List(items)) = find(root, path) {
                    items.retain(|item| item != value);
                }
                Ok(())
            }
            Self::Increment { path, by, .. } => increment(root, path, *by),
        }
    }
}

/// Applies patches in order; an absent document starts as an empty object.
pub(super) fn apply_all(document: Option<Data>, patches: &[Patch]) -> Result<Data, PatchError> {
    let mut document = document.unwrap_or_else(|| Data::Map(BTreeMap::new()));
    for patch in patches {
        patch.apply(&mut document)?;
        if patch.may_deepen() && document.depth() > DOCUMENT_DEPTH_MAX {
            return Err(PatchError::TooDeep);
        }
    }
    if document.as_map().is_none() {
        return Err(PatchError::NotADocument);
    }
    Ok(document)
}

fn parse_pointer(data: &Data, field: &'static str) -> Result<Path, PatchError> {
    let text = data.get(field).and_then(Data::as_str).ok_or(PatchError::Field(field, "a JSON pointer"))?;
    from_pointer(text).ok_or_else(|| PatchError::Pointer(text.chars().take(200).collect()))
}

/// `undefined` can be written as a value, although [`Data::get`] treats it as absent.
fn get_undefined(data: &Data, field: &str) -> Option<Data> {
    data.as_map()?.get(field).cloned()
}

fn parse_count(data: &Data, field: &'static str) -> Result<usize, PatchError> {
    let number = data.get(field).and_then(Data::as_u64).and_then(|number| usize::try_from(number).ok());
    number.ok_or(PatchError::Field(field, "an integer of at least 0"))
}

fn parse_list(data: &Data, field: &'static str) -> Result<Vec<Data>, PatchError> {
    let items = data.get(field).and_then(Data::as_list).ok_or(PatchError::Field(field, "a list"))?;
    if items.len() > PATCH_ITEMS_MAX { Err(PatchError::TooManyItems(field)) } else { Ok(items.to_vec()) }
}

/// The value at a path.
fn find<'a>(root: &'a mut Data, path: &[String]) -> Option<&'a mut Data> {
    path.iter().try_fold(root, |node, step| match node {
        Data::List(items) => items.get_mut(parse_index(step)?),
        Data::Map(members) => members.get_mut(step),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
    })
}

/// The object or list that contains the last step of `path`, and that step.
fn find_parent<'a>(root: &'a mut Data, path: &[String]) -> Result<(&'a mut Data, String), PatchError> {
    let (last, steps) = path.split_last().ok_or(PatchError::Root)?;
    let container = find(root, steps).ok_or_else(|| PatchError::Missing(to_pointer(path)))?;
    Ok((container, last.clone()))
}

/// As [`find_parent`], but creates missing objects and lists on the way. Items of a list are never
/// created.
fn create_parent<'a>(root: &'a mut Data, path: &[String]) -> Result<(&'a mut Data, String), PatchError> {
    let (last, steps) = path.split_last().ok_or(PatchError::Root)?;
    let mut node = root;
    let mut is_new = false;
    for (position, step) in steps.iter().enumerate() {
        let missing = || PatchError::Missing(to_pointer(path));
        if is_new && (parse_index(step).is_some() || step == "-") {
            return Err(missing());
        }
        let next = steps.get(position + 1).unwrap_or(last);
        node = match node {
            Data::List(items) => {
                parse_index(step).and_then(|index| items.get_mut(index)).ok_or_else(missing)?
            }
            Data::Map(members) => members.entry(step.clone()).or_insert_with(|| {
                is_new = true;
                new_container(next)
            }),
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => {
                return Err(PatchError::NotTraversable(to_pointer(path)));
            }
        };
    }
    Ok((node, last.clone()))
}

fn new_container(next_step: &str) -> Data {
    if parse_index(next_step).is_some() || next_step == "-" {
        Data::List(Vec::new())
    } else {
        Data::Map(BTreeMap::new())
    }
}

fn replace(root: &mut Data, path: &[String], value: Data) -> Result<(), PatchError> {
    if path.is_empty() {
        *root = value;
        return Ok(());
    }
    let (container, key) = find_parent(root, path)?;
    match container {
        Data::List(items) => {
            let item = parse_index(&key).and_then(|index| items.get_mut(index));
            *item.ok_or_else(|| PatchError::Missing(to_pointer(path)))? = value;
        }
        Data::Map(members) => {
            members.insert(key, value);
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => {
            return Err(PatchError::NotTraversable(to_pointer(path)));
        }
    }
    Ok(())
}

fn add(root: &mut Data, path: &[String], value: Data) -> Result<(), PatchError> {
    if path.is_empty() {
        *root = value;
        return Ok(());
    }
    let (container, key) = create_parent(root, path)?;
    match container {
        Data::List(items) => {
            let index = if key == "-" { Some(items.len()) } else { parse_index(&key) };
            let index = index.filter(|index| *index <= items.len());
            items.insert(index.ok_or_else(|| PatchError::Index(to_pointer(path)))?, value);
        }
        Data::Map(members) => {
            members.insert(key, value);
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => {
            return Err(PatchError::NotTraversable(to_pointer(path)));
        }
    }
    Ok(())
}

fn remove(root: &mut Data, path: &[String]) -> Result<Data, PatchError> {
    let (container, key) = find_parent(root, path)?;
    let removed = match container {
        Data::List(items) => {
            parse_index(&key).filter(|index| *index < items.len()).map(|index| items.remove(index))
        }
        Data::Map(members) => members.remove(&key),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => {
            return Err(PatchError::NotTraversable(to_pointer(path)));
        }
    };
    removed.ok_or_else(|| PatchError::Missing(to_pointer(path)))
}

fn move_value(root: &mut Data, from: &[String], path: &[String]) -> Result<(), PatchError> {
    if path.len() > from.len() && path.starts_with(from) {
        return Err(PatchError::IntoItself);
    }
    let value = remove(root, from)?;
    add(root, path, value)
}

fn splice(
    root: &mut Data,
    path: &[String],
    index: usize,
    remove: usize,
    add: &[Data],
) -> Result<(), PatchError> {
    match find(root, path).ok_or_else(|| PatchError::Missing(to_pointer(path)))? {
        Data::List(items) if index <= items.len() => {
            let end = index.saturating_add(remove).min(items.len());
            items.splice(index..end, add.iter().cloned());
            Ok(())
        }
        Data::List(_) => Err(PatchError::Index(to_pointer(path))),
        _ => Err(PatchError::Kind(to_pointer(path), "an array")),
    }
}

/// The list at a path, created if the path has no value.
fn find_or_create_list<'a>(root: &'a mut Data, path: &[String]) -> Result<&'a mut Vec<Data>, PatchError> {
    let node = if path.is_empty() {
        root
    } else {
        let (container, key) = create_parent(root, path)?;
        match container {
            Data::Map(members) => members.entry(key).or_insert_with(|| Data::List(Vec::new())),
            Data::List(items) => parse_index(&key)
                .and_then(|index| items.get_mut(index))
                .ok_or_else(|| PatchError::Missing(to_pointer(path)))?,
            _ => return Err(PatchError::NotTraversable(to_pointer(path))),
        }
    };
    match node {
        Data::List(items) => Ok(items),
        _ => Err(PatchError::Kind(to_pointer(path), "an array")),
    }
}

/// Compares canonical texts in a set, so that the time is linear in the values and the list.
fn add_unique(items: &mut Vec<Data>, values: &[Data]) {
    let mut known: HashSet<String> = items.iter().map(Data::to_canonical_json).collect();
    items.extend(values.iter().filter(|value| known.insert(value.to_canonical_json())).cloned());
}

fn increment(root: &mut Data, path: &[String], by: f64) -> Result<(), PatchError> {
    let current = match find(root, path) {
        Some(node) => node.as_f64().ok_or_else(|| PatchError::Kind(to_pointer(path), "a number"))?,
        None => 0.0,
    };
    let next = Data::number(current + by);
    let (container, key) = create_parent(root, path)?;
    match container {
        Data::Map(members) => {
            members.insert(key, next);
        }
        Data::List(items) => match parse_index(&key) {
            Some(index) if index == items.len() => items.push(next),
            index => {
                let item = index.and_then(|index| items.get_mut(index));
                *item.ok_or_else(|| PatchError::Index(to_pointer(path)))? = next;
            }
        },
        _ => return Err(PatchError::NotTraversable(to_pointer(path))),
    }
    Ok(())
}

#[cfg(test)]
mod tests;

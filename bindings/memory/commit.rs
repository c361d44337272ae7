//! Commits as clients send them, and the rules by which a later write makes a read stale.

use super::codec::{DOCUMENT_DEPTH_MAX, Data};
use super::names::{Entity, ID_BYTES_MAX, Scope};
use super::patch::{PATCHES_MAX, Patch, PatchError};
use super::path::{Path, paths_overlap};

/// Most operations, reads and preconditions of one commit: all are checked within one transaction.
pub(super) const COMMIT_ITEMS_MAX: usize = 10_000;

/// Why a commit is malformed; indexes count from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommitError {
    #[error("commit.{0}: expected {1}")]
    Field(&'static str, &'static str),
    #[error("commit.{0}: expected at most {COMMIT_ITEMS_MAX} items")]
    TooManyItems(&'static str),
    #[error("commit.{0}[{1}]: invalid read")]
    Read(&'static str, usize),
    #[error("commit.preconditions[{0}]: invalid precondition")]
    Precondition(usize),
    #[error("commit.operations: expected at least one operation")]
    Empty,
    #[error("commit.operations[{0}]: unsupported operation")]
    Operation(usize),
    #[error(
        "commit.operations[{0}].value: expected an object, nested at most {DOCUMENT_DEPTH_MAX} levels deep"
    )]
    Document(usize),
    #[error("commit.operations[{0}].patches: expected at most {PATCHES_MAX} patches")]
    TooManyPatches(usize),
    #[error("commit.operations[{0}].patches[{1}]: {2}")]
    Patch(usize, usize, PatchError),
    #[error("commit.branch: unknown branch {0:?}")]
    Branch(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operation {
    pub(super) entity: Entity,
    pub(super) change: Change,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    Set(Data),
    /// The patches, parsed and as they were sent.
    Patch(Vec<Patch>, Data),
    Delete,
}

impl Change {
    /// The name on the wire and in the store.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Set(_) => "set",
            Self::Patch(..) => "patch",
            Self::Delete => "delete",
        }
    }
}

/// A path in a document that the commit depends on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Read {
    pub(super) entity: Entity,
    pub(super) path: Path,
    /// Only the keys at the path matter, not the values below.
    pub(super) is_shallow: bool,
}

/// A condition besides the reads.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Precondition {
    OriginCommitted(u64),
    EntityAbsent(Entity),
}

/// A commit as a client sends it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Commit {
    pub(super) local_seq: u64,
    /// Reads of confirmed documents, with the seq that was read.
    pub(super) confirmed: Vec<(Read, u64)>,
    /// Reads of the session's own unconfirmed commits, with their `localSeq`.
    pub(super) pending: Vec<(Read, u64)>,
    pub(super) operations: Vec<Operation>,
    pub(super) preconditions: Vec<Precondition>,
    /// The whole commit in canonical form, to recognise a replay.
    pub(super) original: String,
}

impl Commit {
    pub(super) fn from_data(data: &Data) -> Result<Self, CommitError> {
        let reads = data.get("reads").ok_or(CommitError::Field("reads", "an object"))?;
        let local_seq = data.get("localSeq").and_then(Data::as_u64);
        let commit = Self {
            local_seq: local_seq.ok_or(CommitError::Field("localSeq", "an integer of at least 0"))?,
            confirmed: parse_reads(reads, "confirmed", "reads.confirmed", "seq")?,
            pending: parse_reads(reads, "pending", "reads.pending", "localSeq")?,
            operations: parse_items(data.get("operations"), "operations", parse_operation)?,
            preconditions: parse_items(data.get("preconditions"), "preconditions", parse_precondition)?,
            original: data.to_canonical_json(),
        };
        match data.get("branch").and_then(Data::as_str) {
            None | Some("") => {}
            Some(branch) => return Err(CommitError::Branch(branch.chars().take(200).collect())),
        }
        if commit.operations.is_empty() && commit.preconditions.is_empty() {
            return Err(CommitError::Empty);
        }
        Ok(commit)
    }

    /// A commit of the server that stores a blob. `local_seq` distinguishes it from an earlier
    /// commit of the same blob, which may have been deleted since.
    pub(super) fn for_blob(id: &str, document: Data, local_seq: u64) -> Self {
        let operation = Operation { entity: Entity::new(id, Scope::Space), change: Change::Set(document) };
        Self {
            local_seq,
            confirmed: Vec::new(),
            pending: Vec::new(),
            operations: vec![operation],
            preconditions: Vec::new(),
            original: String::new(),
        }
    }

    /// The documents that the commit reads or writes.
    pub(super) fn entities(&self) -> impl Iterator<Item = &Entity> {
        let reads = self.confirmed.iter().chain(&self.pending).map(|(read, _)| &read.entity);
        reads.chain(self.operations.iter().map(|operation| &operation.entity))
    }
}

/// A write to a document after a read of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Write {
    /// The whole document was set or deleted, which conflicts with every read of it.
    Document,
    Patches(Vec<Patch>),
}

/// Whether the write makes the read stale.
pub(super) fn is_stale(read: &Read, write: &Write) -> bool {
    match write {
        Write::Document => true,
        Write::Patches(patches) => patches.iter().any(|patch| conflicts(read, patch)),
    }
}

fn conflicts(read: &Read, patch: &Patch) -> bool {
    patch.changed_paths().into_iter().any(|path| {
        if !read.is_shallow {
            return paths_overlap(path, &read.path);
        }
        let parent = path.split_last().map_or(path, |(_, parent)| parent);
        read.path.starts_with(path) || (patch.changes_keys() && read.path.starts_with(parent))
    })
}

/// Parses the items of an optional list; `field` is its path in the commit.
fn parse_items<T>(
    list: Option<&Data>,
    field: &'static str,
    parse: impl Fn(usize, &Data) -> Result<T, CommitError>,
) -> Result<Vec<T>, CommitError> {
    let items = match list {
        None => &[],
        Some(list) => list.as_list().ok_or(CommitError::Field(field, "a list"))?,
    };
    if items.len() > COMMIT_ITEMS_MAX {
        return Err(CommitError::TooManyItems(field));
    }
    items.iter().enumerate().map(|(index, item)| parse(index, item)).collect()
}

/// Parses the entity that a read, an operation or a root names.
pub(super) fn parse_entity(data: &Data) -> Option<Entity> {
    let id = data.get("id").and_then(Data::as_str).filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX)?;
    let scope = match data.get("scope") {
        None => Scope::Space,
        Some(name) => Scope::parse(Some(name.as_str()?))?,
    };
    Some(Entity::new(id, scope))
}

/// Parses a path: a list of keys and indexes.
pub(super) fn parse_path(data: &Data) -> Option<Path> {
    let parse_step = |step: &Data| match step {
        Data::Text(text) => Some(text.clone()),
        Data::Number(number) => Some(number.to_string()),
        Data::Null | Data::Bool(_) | Data::List(_) | Data::Map(_) | Data::Tag(..) => None,
    };
    data.as_list()?.iter().map(parse_step).collect()
}

fn parse_reads(
    reads: &Data,
    name: &str,
    field: &'static str,
    seq_field: &str,
) -> Result<Vec<(Read, u64)>, CommitError> {
    parse_items(reads.get(name), field, |index, data| {
        parse_read(data, seq_field).ok_or(CommitError::Read(field, index))
    })
}

fn parse_read(data: &Data, seq_field: &str) -> Option<(Read, u64)> {
    let is_shallow = data.get("nonRecursive").and_then(Data::as_bool).unwrap_or(false);
    let read = Read { entity: parse_entity(data)?, path: parse_path(data.get("path")?)?, is_shallow };
    Some((read, data.get(seq_field)?.as_u64()?))
}

fn parse_operation(index: usize, data: &Data) -> Result<Operation, CommitError> {
    let unsupported = || CommitError::Operation(index);
    let entity = parse_entity(data).ok_or_else(unsupported)?;
    let change = match data.get("op").and_then(Data::as_str) {
        Some("set") => Change::Set(parse_document(index, data.get("value"))?),
        Some("patch") => {
            let patches = data.get("patches").ok_or_else(unsupported)?;
            Change::Patch(parse_patches(index, patches)?, patches.clone())
        }
        Some("delete") => Change::Delete,
        Some(_) | None => return Err(unsupported()),
    };
    Ok(Operation { entity, change })
}

fn parse_patches(operation: usize, data: &Data) -> Result<Vec<Patch>, CommitError> {
    let patches = data.as_list().ok_or(CommitError::Operation(operation))?;
    if patches.len() > PATCHES_MAX {
        return Err(CommitError::TooManyPatches(operation));
    }
    let patches = patches.iter().enumerate();
    let patches = patches.map(|(index, patch)| {
        Patch::from_data(patch).map_err(|error| CommitError::Patch(operation, index, error))
    });
    patches.collect()
}

fn parse_document(operation: usize, data: Option<&Data>) -> Result<Data, CommitError> {
    let document = data.filter(|data| data.as_map().is_some() && data.depth() <= DOCUMENT_DEPTH_MAX);
    document.cloned().ok_or(CommitError::Document(operation))
}

fn parse_precondition(index: usize, data: &Data) -> Result<Precondition, CommitError> {
    let precondition = match data.get("kind").and_then(Data::as_str) {
        Some("origin-committed") => {
            data.get("originLocalSeq").and_then(Data::as_u64).map(Precondition::OriginCommitted)
        }
        Some("entity-absent") => parse_entity(data).map(Precondition::EntityAbsent),
        Some(_) | None => None,
    };
    precondition.ok_or(CommitError::Precondition(index))
}

#[cfg(test)]
mod tests;

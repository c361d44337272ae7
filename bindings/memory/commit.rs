//! What a client asks to be written, and the rules by which that conflicts with what others wrote.

use super::codec::{DOCUMENT_DEPTH_MAX, Data};
use super::names::{Entity, ID_BYTES_MAX, Scope};
use super::patch::{PATCHES_MAX, Patch, PatchError};
use super::path::{Path, overlap};

/// Most operations and most reads of one commit: all of them are looked up within one transaction.
pub(super) const COMMIT_ITEMS_MAX: usize = 10_000;

/// Why a commit is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommitShape {
    #[error("commit {0}")]
    Malformed(&'static str),
    #[error("unsupported operation")]
    Operation,
    #[error("commit requires at least one operation")]
    Empty,
    #[error("a document is an object, nested at most {DOCUMENT_DEPTH_MAX} levels deep")]
    Document,
    #[error("unknown branch: {0}")]
    Branch(String),
    #[error(transparent)]
    Patch(#[from] PatchError),
}

/// A change of one document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operation {
    pub(super) entity: Entity,
    pub(super) change: Change,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    Set(Data),
    /// The patches, and how they were written.
    Patch(Vec<Patch>, Data),
    Delete,
}

impl Change {
    /// Its name on the wire and in the store.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Set(_) => "set",
            Self::Patch(..) => "patch",
            Self::Delete => "delete",
        }
    }
}

/// A place that the commit depends on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Read {
    pub(super) entity: Entity,
    pub(super) path: Path,
    /// Only the keys there matter, not what is below.
    pub(super) is_shallow: bool,
}

/// What must hold beside the reads.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Precondition {
    OriginCommitted(u64),
    EntityAbsent(Entity),
}

/// A commit as a client sends it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Commit {
    pub(super) local_seq: u64,
    /// Reads of what the server confirmed, with its sequence number.
    pub(super) confirmed: Vec<(Read, u64)>,
    /// Reads of the session's own commits that were still under way, by their local number.
    pub(super) pending: Vec<(Read, u64)>,
    pub(super) operations: Vec<Operation>,
    pub(super) preconditions: Vec<Precondition>,
    /// The whole of it in its canonical form: what a replay is compared with.
    pub(super) original: String,
}

impl Commit {
    pub(super) fn from_data(data: &Data) -> Result<Self, CommitShape> {
        let malformed = CommitShape::Malformed;
        let local_seq = data.get("localSeq").and_then(Data::as_u64);
        let reads = data.get("reads").ok_or(malformed("requires reads"))?;
        let commit = Self {
            local_seq: local_seq.ok_or(malformed("requires a localSeq"))?,
            confirmed: items(reads, "confirmed")?
                .iter()
                .map(|read| read_of(read, "seq"))
                .collect::<Result<_, _>>()?,
            pending: items(reads, "pending")?
                .iter()
                .map(|read| read_of(read, "localSeq"))
                .collect::<Result<_, _>>()?,
            operations: items(data, "operations")?.iter().map(operation).collect::<Result<_, _>>()?,
            preconditions: items(data, "preconditions")?
                .iter()
                .map(precondition)
                .collect::<Result<_, _>>()?,
            original: data.to_stored(),
        };
        match data.get("branch").and_then(Data::as_str) {
            None | Some("") => {}
            Some(branch) => return Err(CommitShape::Branch(branch.chars().take(200).collect())),
        }
        if commit.operations.is_empty() && commit.preconditions.is_empty() {
            return Err(CommitShape::Empty);
        }
        Ok(commit)
    }

    /// Stores one document for nobody in particular. `local_seq` tells it from an earlier one that was deleted since.
    pub(super) fn blob(id: &str, document: Data, local_seq: u64) -> Self {
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

    /// The documents that it reads or writes.
    pub(super) fn entities(&self) -> impl Iterator<Item = &Entity> {
        let reads = self.confirmed.iter().chain(&self.pending).map(|(read, _)| &read.entity);
        reads.chain(self.operations.iter().map(|operation| &operation.entity))
    }
}

/// Something that was written after a read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Written {
    /// The whole document: it conflicts with every read of it.
    Whole,
    Patches(Vec<Patch>),
}

/// Whether what was written makes the read stale.
pub(super) fn is_stale(read: &Read, written: &Written) -> bool {
    match written {
        Written::Whole => true,
        Written::Patches(patches) => patches.iter().any(|patch| touches(read, patch)),
    }
}

fn touches(read: &Read, patch: &Patch) -> bool {
    patch.touched().into_iter().any(|path| {
        if !read.is_shallow {
            return overlap(path, &read.path);
        }
        let parent = path.split_last().map_or(path, |(_, parent)| parent);
        read.path.starts_with(path) || (patch.changes_keys() && read.path.starts_with(parent))
    })
}

fn items<'a>(data: &'a Data, field: &'static str) -> Result<&'a [Data], CommitShape> {
    let items = match data.get(field) {
        None => &[],
        Some(list) => list.as_list().ok_or(CommitShape::Malformed("has a field that is no list"))?,
    };
    if items.len() > COMMIT_ITEMS_MAX { Err(CommitShape::Malformed("is too long")) } else { Ok(items) }
}

/// The document that a read, an operation or a root is about.
pub(super) fn entity(data: &Data) -> Option<Entity> {
    let id = data.get("id").and_then(Data::as_str).filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX)?;
    let scope = match data.get("scope") {
        None => Scope::Space,
        Some(name) => Scope::named(Some(name.as_str()?))?,
    };
    Some(Entity::new(id, scope))
}

/// A place as a list of steps; numbers count as steps too.
pub(super) fn path(data: &Data) -> Option<Path> {
    let step = |step: &Data| match step {
        Data::Text(text) => Some(text.clone()),
        Data::Number(number) => Some(number.to_string()),
        Data::Null | Data::Bool(_) | Data::List(_) | Data::Map(_) | Data::Tag(..) => None,
    };
    data.as_list()?.iter().map(step).collect()
}

fn read_of(data: &Data, number: &str) -> Result<(Read, u64), CommitShape> {
    let read = || {
        let is_shallow = data.get("nonRecursive").and_then(Data::as_bool).unwrap_or(false);
        let read = Read { entity: entity(data)?, path: path(data.get("path")?)?, is_shallow };
        Some((read, data.get(number)?.as_u64()?))
    };
    read().ok_or(CommitShape::Malformed("has a read that is none"))
}

fn operation(data: &Data) -> Result<Operation, CommitShape> {
    let entity = entity(data).ok_or(CommitShape::Operation)?;
    let change = match data.get("op").and_then(Data::as_str) {
        Some("set") => Change::Set(document(data.get("value"))?),
        Some("patch") => {
            let written = data.get("patches").ok_or(CommitShape::Operation)?;
            let patches = written.as_list().ok_or(CommitShape::Operation)?;
            if patches.len() > PATCHES_MAX {
                return Err(CommitShape::Malformed("has too many patches"));
            }
            Change::Patch(patches.iter().map(Patch::from_data).collect::<Result<_, _>>()?, written.clone())
        }
        Some("delete") => Change::Delete,
        Some(_) | None => return Err(CommitShape::Operation),
    };
    Ok(Operation { entity, change })
}

fn document(data: Option<&Data>) -> Result<Data, CommitShape> {
    let document = data.filter(|data| data.as_map().is_some() && data.depth() <= DOCUMENT_DEPTH_MAX);
    document.cloned().ok_or(CommitShape::Document)
}

fn precondition(data: &Data) -> Result<Precondition, CommitShape> {
    let precondition = match data.get("kind").and_then(Data::as_str) {
        Some("origin-committed") => {
            data.get("originLocalSeq").and_then(Data::as_u64).map(Precondition::OriginCommitted)
        }
        Some("entity-absent") => entity(data).map(Precondition::EntityAbsent),
        Some(_) | None => None,
    };
    precondition.ok_or(CommitShape::Malformed("has a precondition that is none"))
}

#[cfg(test)]
mod tests;

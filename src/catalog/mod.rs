//! The bindings of a server or of a client as data: names, numbers, declarations, compiled schemas.
//!
//! A [`Catalog`] is what a session needs to know of bindings. It holds nothing that is alive: the functions behind the
//! bindings, their limits and policies are the host's ([`crate::binding::Handlers`]), so that a session can run where those
//! do not exist. A catalog never changes; a server whose bindings change publishes a new one with a higher version, and
//! `changes` compares the two. A session has two catalogs: the server's, and on top of it that of its client.

pub(crate) mod changes;
pub(crate) mod check;
mod entry;
pub(crate) mod search;
mod stored;
pub mod typescript;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

pub use entry::CatalogEntry;
pub(crate) use entry::CompiledSchemas;

use crate::protocol::names::{self, NameError, NameSet};

/// A set of bindings, at one version.
#[derive(Debug, Default)]
pub struct Catalog {
    version: u64,
    /// In the order in which they were added.
    entries: Vec<Arc<CatalogEntry>>,
    /// The number of each entry, ascending. A number names a binding in calls and is never given to another one.
    numbers: Vec<u32>,
    /// Positions in `entries`.
    by_name: HashMap<String, usize>,
    names: NameSet,
    /// The TypeScript declarations of this catalog alone, once a session has asked for them.
    typescript: OnceLock<String>,
}

impl Catalog {
    /// A catalog of entries with ascending numbers, whose names can stand side by side.
    pub(crate) fn new(
        version: u64,
        numbered: impl IntoIterator<Item = (u32, Arc<CatalogEntry>)>,
        names: NameSet,
    ) -> Self {
        let (numbers, entries): (Vec<u32>, Vec<Arc<CatalogEntry>>) = numbered.into_iter().unzip();
        debug_assert!(numbers.is_sorted_by(|a, b| a < b));
        let position = |(at, entry): (usize, &Arc<CatalogEntry>)| (entry.name().to_owned(), at);
        let by_name = entries.iter().enumerate().map(position).collect();
        Self { version, entries, numbers, by_name, names, typescript: OnceLock::new() }
    }

    /// Stands for a catalog of that version where both sides have it.
    pub(crate) fn named(version: u64) -> Self {
        Self { version, ..Self::default() }
    }

    /// Grows with every change of the server's bindings. A client's catalog does not change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The binding of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<CatalogEntry>> {
        self.by_name.get(name).and_then(|at| self.entries.get(*at))
    }

    /// The binding of that number.
    pub fn at(&self, number: u32) -> Option<&Arc<CatalogEntry>> {
        let at = position_of(&self.numbers, number, |number| *number)?;
        self.entries.get(at)
    }

    /// The number of the binding of that name.
    pub fn number_of(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).and_then(|at| self.numbers.get(*at).copied())
    }

    /// The names of the bindings whose numbers are below `number`: those that were added before it was given.
    pub(crate) fn names_below(&self, number: u32) -> NameSet {
        let mut names = NameSet::default();
        for (entry, _) in self.entries.iter().zip(&self.numbers).filter(|(_, own)| **own < number) {
            // They stood side by side before.
            let _ = names.insert(entry.name());
        }
        names
    }

    /// The number after the highest one.
    pub(crate) fn next_number(&self) -> u32 {
        self.numbers.last().map_or(0, |last| last.saturating_add(1))
    }

    /// Whether there is a binding of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// All bindings, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.entries.iter()
    }

    /// How many bindings there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names that scripts see, which another binding cannot have.
    pub(crate) fn names(&self) -> &NameSet {
        &self.names
    }

    /// The bindings of a client that scripts may call: all but those that the server itself calls.
    pub fn callable_by_scripts(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.entries.iter().filter(|entry| !names::is_server_called(entry.name()))
    }

    /// The same names and numbers with nothing declared or compiled.
    pub(crate) fn names_only(&self) -> Self {
        let entries = self.entries.iter().map(|entry| Arc::new(CatalogEntry::named(entry.name())));
        let numbered: Vec<_> = self.numbers.iter().copied().zip(entries).collect();
        Self::new(self.version, numbered, self.names.clone())
    }

    /// The TypeScript declarations of this catalog alone, if [`Self::keep_typescript`] was called before.
    pub(crate) fn typescript(&self) -> Option<&str> {
        self.typescript.get().map(String::as_str)
    }

    /// Keeps the TypeScript declarations of this catalog alone, so that they are written once per version.
    pub(crate) fn keep_typescript(&self, text: String) {
        // Two sessions may have written them concurrently; both texts are the same.
        let _ = self.typescript.set(text);
    }
}

/// Collects the bindings of a client. They are numbered in the order in which they are declared.
#[derive(Debug, Default)]
pub(crate) struct CatalogBuilder {
    entries: Vec<Arc<CatalogEntry>>,
    names: NameSet,
}

impl CatalogBuilder {
    /// Checks that a binding of a client may have this name: beside the client's others, and beside `taken`. Names of
    /// bindings that the server calls are apart from all others, since scripts do not see them.
    pub(crate) fn reserve_name(&mut self, name: &str, taken: &NameSet) -> Result<(), NameError> {
        if names::is_server_called(name) {
            return match self.entries.iter().any(|entry| entry.name() == name) {
                true => Err(NameError::Duplicate(name.to_owned())),
                false => Ok(()),
            };
        }
        self.names.insert_beside(name, taken)
    }

    /// Adds an entry whose name was reserved.
    pub(crate) fn push(&mut self, entry: CatalogEntry) {
        self.entries.push(Arc::new(entry));
    }

    /// The catalog.
    pub(crate) fn build(self) -> Catalog {
        Catalog::new(0, (0..).zip(self.entries), self.names)
    }
}

/// The index of a number in a list that is sorted by number. It is the number itself as long as nothing was removed.
pub(crate) fn position_of<T>(sorted: &[T], number: u32, number_of: impl Fn(&T) -> u32) -> Option<usize> {
    let expected = number as usize;
    match sorted.get(expected) {
        Some(found) if number_of(found) == number => Some(expected),
        _ => sorted.binary_search_by_key(&number, number_of).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::declaration::Declaration;
    use crate::schema::SchemaSource;

    /// A catalog of bindings about which nothing is declared.
    pub(super) fn catalog(version: u64, bindings: &[(u32, &str)]) -> Catalog {
        let mut names = NameSet::default();
        let entry = |(number, name): &(u32, &str)| {
            names.insert(name).unwrap();
            let declaration = Declaration::named(*name);
            let schemas = CompiledSchemas::compile(&declaration, SchemaSource::Operator).unwrap();
            (*number, Arc::new(schemas.into_entry(declaration, None)))
        };
        let entries: Vec<_> = bindings.iter().map(entry).collect();
        Catalog::new(version, entries, names)
    }

    #[test]
    fn entries_are_found_by_number_also_after_removals() {
        let name_at = |catalog: &Catalog, number| catalog.at(number).map(|entry| entry.name().to_owned());
        let dense = catalog(1, &[(0, "a"), (1, "b"), (2, "c")]);
        assert_eq!(name_at(&dense, 1).as_deref(), Some("b"));
        assert_eq!(name_at(&dense, 3), None);
        let sparse = catalog(2, &[(1, "b"), (4, "d"), (9, "e")]);
        let found: Vec<_> = (0..11).filter_map(|number| name_at(&sparse, number)).collect();
        assert_eq!(found, ["b", "d", "e"]);
        assert_eq!(name_at(&sparse, 0), None);
        assert_eq!((sparse.number_of("d"), sparse.next_number()), (Some(4), 10));
        assert!(sparse.names_below(9).contains("d") && !sparse.names_below(9).contains("e"));
    }

    #[test]
    fn client_names_stay_clear_of_the_server_and_of_each_other() {
        let server = catalog(1, &[(0, "kv.get"), (1, "echo")]);
        let mut builder = CatalogBuilder::default();
        let mut refused = |name: &str| builder.reserve_name(name, server.names()).is_err();
        assert!(refused("kv.get") && refused("kv") && refused("echo.loud"));
        assert!(!refused("kv.set") && refused("kv.set"));
        assert!(!refused("approve") && !refused("console.write"));
    }

    #[test]
    fn server_called_bindings_are_hidden_from_scripts() {
        let mut builder = CatalogBuilder::default();
        for name in ["approve", "lookup"] {
            builder.reserve_name(name, &NameSet::default()).unwrap();
            let declaration = Declaration::named(name);
            let schemas = CompiledSchemas::compile(&declaration, SchemaSource::Operator).unwrap();
            builder.push(schemas.into_entry(declaration, None));
        }
        assert_eq!(
            builder.reserve_name("approve", &NameSet::default()),
            Err(NameError::Duplicate("approve".into()))
        );
        let catalog = builder.build();
        assert!(catalog.contains("approve") && !catalog.names().contains("approve"));
        let seen: Vec<_> = catalog.callable_by_scripts().map(|entry| entry.name()).collect();
        assert_eq!(seen, ["lookup"]);
    }

    #[test]
    fn names_only_keeps_names_and_numbers() {
        let mut full = catalog(3, &[(1, "a"), (4, "b.c")]);
        full.entries[0] =
            Arc::new(CatalogEntry { timeout: Some(std::time::Duration::ZERO), ..CatalogEntry::named("a") });
        let names = full.names_only();
        assert_eq!((names.number_of("a"), names.number_of("b.c"), names.version()), (Some(1), Some(4), 3));
        assert!(names.names().has_name_or_prefix("b") && names.get("a").unwrap().timeout.is_none());
    }
}

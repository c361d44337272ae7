//! The host's side of a server's bindings: the function behind each number, its slots and its time limit.
//!
//! [`Handlers`] is the only writer of the server's [`Catalog`]: it numbers the bindings and publishes a new version when a
//! package changes its set. Readers never wait for a writer: schemas are compiled before the table is swapped. A call that
//! has begun keeps its [`HandlerEntry`], so it finishes even if its binding is removed meanwhile.

mod draft;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::slots::CallSlots;
use super::{Binding, BindingLimits, BindingPublisher, DeclarationProblem, Handler};
use crate::catalog::{Catalog, CatalogEntry, position_of};
use crate::observe::BindingMeter;
use crate::protocol::names::NameSet;
use crate::schema::SchemaSource;
use draft::Draft;

/// Most bindings of one package. A tool list beyond it is a fault, and each binding has two compiled schemas.
/// Past it: the rest of the set is refused.
pub(crate) const PACKAGE_BINDINGS_MAX: usize = 10_000;

/// A binding ready to be called.
pub(crate) struct HandlerEntry {
    /// What the catalog says of it.
    pub entry: Arc<CatalogEntry>,
    /// How long a call may take; absent: the server's default.
    pub timeout: Option<Duration>,
    /// The declaration file or the package that it comes from, for the operator.
    pub origin: Arc<str>,
    pub(super) handler: Arc<dyn Handler>,
    /// One per call that runs.
    pub(super) slots: Arc<CallSlots>,
    pub(super) meter: Arc<BindingMeter>,
    number: u32,
    limits: BindingLimits,
    package: PackageId,
}

impl std::fmt::Debug for HandlerEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerEntry").field("name", &self.entry.name()).finish_non_exhaustive()
    }
}

/// Names a package within its [`Handlers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackageId(usize);

/// A package to be registered.
#[derive(Debug)]
pub(crate) struct PackageBindings {
    /// The declaration file, or the name of a package made in code.
    pub origin: String,
    /// What its schemas may contain.
    pub source: SchemaSource<'static>,
    /// Each with the place of its declaration in the file.
    pub bindings: Vec<(Binding, String)>,
    /// By which the package changes its bindings later.
    pub publisher: BindingPublisher,
}

/// What became of the bindings of a package.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    /// The bindings that are offered now.
    pub names: Vec<String>,
    /// Why the others are not.
    pub problems: Vec<DeclarationProblem>,
}

/// What is known of a registered package.
#[derive(Clone)]
struct PackageRecord {
    origin: Arc<str>,
    source: SchemaSource<'static>,
    publisher: BindingPublisher,
}

/// Held by one writer at a time.
#[derive(Default)]
struct Writer {
    packages: Vec<PackageRecord>,
    next_number: u32,
}

/// The handlers of a server, by the numbers of its catalog.
#[derive(Default)]
pub struct Handlers {
    writer: Mutex<Writer>,
    /// Ascending by number.
    table: RwLock<Vec<Arc<HandlerEntry>>>,
    catalog_tx: watch::Sender<Arc<Catalog>>,
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handlers").field("bindings", &self.table.read().len()).finish_non_exhaustive()
    }
}

impl Handlers {
    /// The handler of that number; `None` if the binding was removed.
    pub(crate) fn at(&self, number: u32) -> Option<Arc<HandlerEntry>> {
        let table = self.table.read();
        let at = position_of(&table, number, |handler| handler.number)?;
        table.get(at).cloned()
    }

    /// The handler of the binding of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<HandlerEntry>> {
        let number = self.catalog_tx.borrow().number_of(name)?;
        self.at(number)
    }

    /// The bindings that are offered now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog_tx.borrow())
    }

    /// The bindings that are offered now, and every later version.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog_tx.subscribe()
    }

    /// Registers a package. Bindings that are refused are left out.
    pub(crate) fn add(self: &Arc<Self>, package: PackageBindings) -> Registration {
        let PackageBindings { origin, source, bindings, publisher } = package;
        publisher.clone().register(|early| {
            let bindings = early.map_or(bindings, with_paths);
            let mut writer = self.writer.lock();
            let id = PackageId(writer.packages.len());
            writer.packages.push(PackageRecord { origin: origin.into(), source, publisher });
            let problems = self.replace_locked(&mut writer, id, bindings);
            (Arc::downgrade(self), id, Registration { names: self.names_of(id), problems })
        })
    }

    /// Puts a package in the place of the one that `old` publishes for, whose bindings are removed unless they stay the
    /// same or are declared anew. Calls in flight finish with the handlers that they began with.
    pub(crate) fn supersede(
        self: &Arc<Self>,
        old: &BindingPublisher,
        package: PackageBindings,
    ) -> Registration {
        let Some(id) = old.detach() else { return self.add(package) };
        let PackageBindings { origin, source, bindings, publisher } = package;
        publisher.clone().register(|early| {
            let bindings = early.map_or(bindings, with_paths);
            let mut writer = self.writer.lock();
            if let Some(record) = writer.packages.get_mut(id.0) {
                *record = PackageRecord { origin: origin.into(), source, publisher };
            }
            let problems = self.replace_locked(&mut writer, id, bindings);
            (Arc::downgrade(self), id, Registration { names: self.names_of(id), problems })
        })
    }

    /// Moves all packages of other handlers here, with their compiled schemas. Bindings whose names are taken are refused.
    pub fn merge(self: &Arc<Self>, other: &Self) -> Vec<DeclarationProblem> {
        let mut problems = Vec::new();
        // They stay known there: until a package is moved, it may still publish to the other handlers.
        let packages = other.writer.lock().packages.clone();
        for (at, record) in packages.into_iter().enumerate() {
            let refused = record.publisher.clone().register(|_| {
                let moved =
                    other.table.write().extract_if(.., |entry| entry.package == PackageId(at)).collect();
                let (id, refused) = self.adopt(record, moved);
                (Arc::downgrade(self), id, refused)
            });
            problems.extend(refused);
        }
        problems
    }

    fn adopt(
        &self,
        record: PackageRecord,
        moved: Vec<Arc<HandlerEntry>>,
    ) -> (PackageId, Vec<DeclarationProblem>) {
        let mut writer = self.writer.lock();
        let package = PackageId(writer.packages.len());
        writer.packages.push(record);
        let (mut table, mut problems) = (self.table.read().clone(), Vec::new());
        let mut names = names_in(&table);
        for entry in moved {
            match names.insert(entry.entry.name()) {
                Ok(()) => {
                    let number = writer.next_number;
                    writer.next_number += 1;
                    let HandlerEntry { entry, timeout, origin, handler, slots, meter, limits, .. } = &*entry;
                    table.push(Arc::new(HandlerEntry {
                        entry: Arc::clone(entry),
                        timeout: *timeout,
                        origin: Arc::clone(origin),
                        handler: Arc::clone(handler),
                        slots: Arc::clone(slots),
                        meter: Arc::clone(meter),
                        limits: limits.clone(),
                        number,
                        package,
                    }));
                }
                Err(error) => problems.push(DeclarationProblem {
                    origin: entry.origin.to_string(),
                    path: String::new(),
                    message: error.to_string(),
                }),
            }
        }
        self.publish(table, names);
        (package, problems)
    }

    /// Puts a new set in the place of the bindings of a package; what is refused is logged and returned.
    pub(super) fn replace(&self, package: PackageId, bindings: Vec<Binding>) -> Vec<DeclarationProblem> {
        let problems = self.replace_locked(&mut self.writer.lock(), package, with_paths(bindings));
        for problem in &problems {
            tracing::warn!("a changed binding is refused: {problem}");
        }
        problems
    }

    fn replace_locked(
        &self,
        writer: &mut Writer,
        package: PackageId,
        mut bindings: Vec<(Binding, String)>,
    ) -> Vec<DeclarationProblem> {
        let (own, mut table): (Vec<_>, Vec<_>) =
            self.table.read().iter().cloned().partition(|entry| entry.package == package);
        let mut draft = Draft::new(writer, package, own, names_in(&table));
        let mut problems = Vec::new();
        if bindings.len() > PACKAGE_BINDINGS_MAX {
            let message = format!("expected at most {PACKAGE_BINDINGS_MAX} bindings, got {}", bindings.len());
            problems.push(draft.problem(String::new(), message));
            bindings.truncate(PACKAGE_BINDINGS_MAX);
        }
        for (binding, path) in bindings {
            match draft.bind(binding, &path) {
                Ok(entry) => table.push(entry),
                Err(problem) => problems.push(problem),
            }
        }
        let names = draft.names;
        table.sort_unstable_by_key(|entry| entry.number);
        self.publish(table, names);
        problems
    }

    /// Swaps the table, and publishes a catalog of it unless it looks like the last one.
    fn publish(&self, table: Vec<Arc<HandlerEntry>>, names: NameSet) {
        let numbered: Vec<_> =
            table.iter().map(|handler| (handler.number, Arc::clone(&handler.entry))).collect();
        *self.table.write() = table;
        self.catalog_tx.send_if_modified(|catalog| {
            let is_same = catalog.len() == numbered.len()
                && catalog.iter().zip(&numbered).all(|(before, (_, now))| Arc::ptr_eq(before, now));
            if !is_same {
                *catalog = Arc::new(Catalog::new(catalog.version() + 1, numbered, names));
            }
            !is_same
        });
    }

    fn names_of(&self, package: PackageId) -> Vec<String> {
        let table = self.table.read();
        let own = table.iter().filter(|handler| handler.package == package);
        own.map(|handler| handler.entry.name().to_owned()).collect()
    }
}

/// A set that was published in code: its places are counted as in a declaration file.
fn with_paths(bindings: Vec<Binding>) -> Vec<(Binding, String)> {
    let place = |(at, binding)| (binding, format!("/bindings/{at}"));
    bindings.into_iter().enumerate().map(place).collect()
}

fn names_in(table: &[Arc<HandlerEntry>]) -> NameSet {
    let mut names = NameSet::default();
    for handler in table {
        // They stood side by side before.
        let _ = names.insert(handler.entry.name());
    }
    names
}

#[cfg(test)]
mod tests;

//! Functions that crossed between the script and the outside, each with its count.
//!
//! *Exports* are functions that the client or a handler may call: of the script, of a handler, or of the client on its
//! way back. The same function sent again to the same holder keeps its number, and each sending counts one. Numbers are
//! never reused: a function whose count fell to zero gets a new one when it is sent again. *Imports* are functions of
//! the client or of handlers that the script holds. What a function is known to take and return goes with its entry.
//!
//! Several entries may stand for one function: exports to both holders, an import, a stored outcome. Its root in the
//! context, or the handler's function, is freed with the last of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::protocol::fn_ref::FnRef;
use crate::protocol::references::{Exports, Imports};
use crate::schema::FunctionSchemas;
use crate::session::{RefHolder, RootId};

/// A function, by its identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Callable {
    /// A function of the script, by the prelude's number for it.
    Script(u64),
    /// A function of a handler or of the client.
    Outside(FnRef),
}

/// What is to be freed because no entry stands for its function any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freed {
    /// A function of the script, by its root.
    Root(RootId),
    /// A function of a handler, by its number.
    Handler(u64),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Export {
    callable: Callable,
    /// What its receiver declared that it takes and returns.
    schemas: Option<Arc<FunctionSchemas>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Uses {
    entries: usize,
    root: Option<RootId>,
}

/// More references than a session may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyRefs;

/// See the module. Client and handlers have a table each, so that neither can call or release what the other holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct References {
    to_client: Exports<Export, Callable>,
    to_handlers: Exports<Export, Callable>,
    imports: Imports<FnRef, Option<Arc<FunctionSchemas>>>,
    #[serde(with = "crate::session::pairs")]
    uses: BTreeMap<Callable, Uses>,
}

impl References {
    /// Room for `each_max` exports a holder, and as many imports.
    pub(crate) fn new(each_max: usize) -> Self {
        Self {
            to_client: Exports::new(each_max),
            to_handlers: Exports::new(each_max),
            imports: Imports::new(each_max),
            uses: BTreeMap::new(),
        }
    }

    fn exports(&self, holder: RefHolder) -> &Exports<Export, Callable> {
        match holder {
            RefHolder::Client => &self.to_client,
            RefHolder::Handler => &self.to_handlers,
        }
    }

    fn exports_mut(&mut self, holder: RefHolder) -> &mut Exports<Export, Callable> {
        match holder {
            RefHolder::Client => &mut self.to_client,
            RefHolder::Handler => &mut self.to_handlers,
        }
    }

    /// Counts one sending of a function and returns its number. A function of the script needs a
    /// [root](Self::root_of) too.
    pub(crate) fn export(&mut self, holder: RefHolder, callable: &Callable) -> Result<u64, TooManyRefs> {
        let next = self.to_client.next_id().max(self.to_handlers.next_id());
        let exports = self.exports_mut(holder);
        // One number space: a name such as `f7` means one function only.
        exports.skip_ids_below(next);
        let export = Export { callable: callable.clone(), schemas: None };
        let number = exports.export(callable.clone(), export).ok_or(TooManyRefs)?;
        if number >= next {
            self.retain(callable);
        }
        Ok(number)
    }

    /// The function of that number, if that holder has it.
    pub(crate) fn exported(&self, holder: RefHolder, number: u64) -> Option<&Callable> {
        self.exports(holder).get(number).map(|export| &export.callable)
    }

    /// The root of a function of the script.
    pub(crate) fn root_of(&self, callable: &Callable) -> Option<RootId> {
        self.uses.get(callable)?.root
    }

    /// Says where a function of the script is rooted.
    pub(crate) fn set_root(&mut self, callable: &Callable, root: RootId) {
        if let Some(uses) = self.uses.get_mut(callable) {
            uses.root = Some(root);
        }
    }

    /// Says what an exported function takes and returns.
    pub(crate) fn set_export_schemas(
        &mut self,
        holder: RefHolder,
        number: u64,
        schemas: &Arc<FunctionSchemas>,
    ) {
        if let Some(export) = self.exports_mut(holder).get_mut(number) {
            export.schemas = Some(Arc::clone(schemas));
        }
    }

    /// What an exported function takes and returns, if that is known.
    pub(crate) fn export_schemas(&self, holder: RefHolder, number: u64) -> Option<Arc<FunctionSchemas>> {
        self.exports(holder).get(number)?.schemas.clone()
    }

    /// Takes back `count` sendings.
    pub(crate) fn release(&mut self, holder: RefHolder, number: u64, count: u64) -> Option<Freed> {
        let export = self.exports_mut(holder).release(number, count)?;
        self.release_use(&export.callable)
    }

    /// Takes back everything that a holder has, in the order of the numbers.
    pub(crate) fn release_all(&mut self, holder: RefHolder) -> Vec<Freed> {
        let released = self.exports_mut(holder).drain();
        released.filter_map(|export| self.release_use(&export.callable)).collect()
    }

    /// The functions of the script that are exported, by their numbers, with their roots.
    pub(crate) fn script_exports(&self) -> BTreeMap<u64, RootId> {
        let exports = self.to_client.iter().chain(self.to_handlers.iter());
        exports.filter_map(|(number, export)| Some((number, self.root_of(&export.callable)?))).collect()
    }

    /// The roots of all functions of the script.
    pub(crate) fn roots(&self) -> BTreeSet<RootId> {
        self.uses.values().filter_map(|uses| uses.root).collect()
    }

    /// The functions of the outside that the script holds.
    pub(crate) fn imported(&self) -> BTreeSet<FnRef> {
        self.imports.keys().cloned().collect()
    }

    /// The context goes back to where these functions were exported, under the same numbers: the others are gone. Their
    /// prelude numbers may come again, which is why those do not say which function it is.
    pub(crate) fn rewind(&mut self, exported: &BTreeMap<u64, RootId>) -> Vec<Freed> {
        let mut freed = Vec::new();
        for holder in [RefHolder::Client, RefHolder::Handler] {
            let of_script = self
                .exports(holder)
                .iter()
                .filter(|(_, export)| matches!(export.callable, Callable::Script(_)));
            let numbers: Vec<u64> = of_script.map(|(number, _)| number).collect();
            for number in numbers {
                if exported.contains_key(&number) {
                    continue;
                }
                if let Some(export) = self.exports_mut(holder).remove(number) {
                    freed.extend(self.release_use(&export.callable));
                }
            }
        }
        let kept: Vec<(Callable, RootId)> = [RefHolder::Client, RefHolder::Handler]
            .into_iter()
            .flat_map(|holder| self.exports(holder).iter())
            .filter_map(|(number, export)| Some((export.callable.clone(), *exported.get(&number)?)))
            .collect();
        kept.iter().for_each(|(callable, root)| self.set_root(callable, *root));
        freed
    }

    /// One more entry stands for a function.
    pub(crate) fn retain(&mut self, callable: &Callable) {
        self.uses.entry(callable.clone()).or_default().entries += 1;
    }

    /// One entry less stands for a function.
    pub(crate) fn release_use(&mut self, callable: &Callable) -> Option<Freed> {
        let uses = self.uses.get_mut(callable)?;
        uses.entries = uses.entries.saturating_sub(1);
        if uses.entries > 0 {
            return None;
        }
        let uses = self.uses.remove(callable)?;
        match callable {
            Callable::Script(_) => uses.root.map(Freed::Root),
            Callable::Outside(FnRef::Handler(number)) => Some(Freed::Handler(*number)),
            Callable::Outside(FnRef::Script(_) | FnRef::Client { .. }) => None,
        }
    }

    /// Whether an entry stands for a function from outside.
    pub(crate) fn is_known(&self, function: &FnRef) -> bool {
        self.uses.contains_key(&Callable::Outside(function.clone()))
    }

    /// Whether nothing outside could call into the script.
    pub(crate) fn has_no_exports(&self) -> bool {
        self.to_client.is_empty() && self.to_handlers.is_empty()
    }

    /// How many exports a holder has.
    pub(crate) fn held_by(&self, holder: RefHolder) -> usize {
        self.exports(holder).len()
    }

    /// Whether a function could be received now.
    pub(crate) fn has_room_for(&self, function: &FnRef) -> bool {
        self.imports.has_room_for(function)
    }

    /// Counts one receipt of a function from outside.
    pub(crate) fn import(&mut self, function: &FnRef) -> Result<(), TooManyRefs> {
        let is_new = self.imports.get(function).is_none();
        self.imports.receive(function.clone()).ok_or(TooManyRefs)?;
        if is_new {
            self.retain(&Callable::Outside(function.clone()));
        }
        Ok(())
    }

    /// Says what an imported function takes and returns.
    pub(crate) fn set_import_schemas(&mut self, function: &FnRef, schemas: Arc<FunctionSchemas>) {
        if let Some(known) = self.imports.get_mut(function) {
            *known = Some(schemas);
        }
    }

    /// Whether the script holds it.
    #[cfg(test)]
    pub(crate) fn is_imported(&self, function: &FnRef) -> bool {
        self.imports.get(function).is_some()
    }

    /// What an imported function takes and returns, if it said so.
    pub(crate) fn import_schemas(&self, function: &FnRef) -> Option<Arc<FunctionSchemas>> {
        self.imports.get(function)?.clone()
    }

    /// The script does not hold it any more; returns how often it was received, and what is to be freed.
    pub(crate) fn drop_import(&mut self, function: &FnRef) -> Option<(u64, Option<Freed>)> {
        let count = self.imports.remove(function)?;
        Some((count, self.release_use(&Callable::Outside(function.clone()))))
    }

    /// The script holds nothing any more; returns what it held, with how often each was received.
    pub(crate) fn drop_imports(&mut self) -> (Vec<(FnRef, u64)>, Vec<Freed>) {
        let imports: Vec<(FnRef, u64)> = self.imports.drain().collect();
        let dropped = imports.iter().map(|(function, _)| Callable::Outside(function.clone()));
        let freed = dropped.filter_map(|callable| self.release_use(&callable)).collect();
        (imports, freed)
    }

    /// The client's connection ended: its functions can no longer be called, so what they take and return is dropped.
    pub(crate) fn drop_import_schemas(&mut self) {
        self.imports.payloads_mut().for_each(|schemas| *schemas = None);
    }

    /// How many functions the script holds.
    pub(crate) fn imports_len(&self) -> usize {
        self.imports.len()
    }

    /// All references, both ways.
    pub(crate) fn len(&self) -> usize {
        self.to_client.len() + self.to_handlers.len() + self.imports.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler_function(number: u64) -> Callable {
        Callable::Outside(FnRef::Handler(number))
    }

    #[test]
    fn export_sent_again_keeps_its_number_until_all_is_released() {
        let mut references = References::new(2);
        assert_eq!(references.export(RefHolder::Client, &handler_function(7)), Ok(1));
        assert_eq!(references.export(RefHolder::Client, &handler_function(7)), Ok(1));
        assert!(references.release(RefHolder::Client, 1, 1).is_none());
        assert!(references.exported(RefHolder::Client, 1).is_some());
        assert_eq!(references.release(RefHolder::Client, 1, 1), Some(Freed::Handler(7)));
        assert!(references.exported(RefHolder::Client, 1).is_none());
        assert_eq!(references.export(RefHolder::Client, &handler_function(7)), Ok(2));
    }

    #[test]
    fn function_is_freed_with_its_last_entry() {
        let mut references = References::new(2);
        let function = Callable::Script(9);
        assert_eq!(references.export(RefHolder::Client, &function), Ok(1));
        references.set_root(&function, RootId(4));
        assert_eq!(references.export(RefHolder::Handler, &function), Ok(2));
        references.retain(&function);
        assert_eq!(references.release(RefHolder::Client, 1, 1), None);
        assert_eq!(references.release_all(RefHolder::Handler), []);
        assert_eq!(references.root_of(&function), Some(RootId(4)));
        assert_eq!(references.release_use(&function), Some(Freed::Root(RootId(4))));
        assert_eq!(references.release_use(&function), None);
    }

    #[test]
    fn holders_have_separate_counts_and_limits() {
        let mut references = References::new(1);
        assert_eq!(references.export(RefHolder::Client, &handler_function(1)), Ok(1));
        assert_eq!(references.export(RefHolder::Client, &handler_function(2)), Err(TooManyRefs));
        assert_eq!(references.export(RefHolder::Handler, &handler_function(3)), Ok(2));
        assert!(references.exported(RefHolder::Client, 2).is_none());
        assert!(references.release(RefHolder::Client, 2, 9).is_none());
        assert_eq!(references.release_all(RefHolder::Client), [Freed::Handler(1)]);
        assert_eq!((references.held_by(RefHolder::Client), references.held_by(RefHolder::Handler)), (0, 1));
    }

    #[test]
    fn schemas_of_an_export_go_with_it() {
        let mut references = References::new(1);
        references.export(RefHolder::Client, &handler_function(1)).unwrap();
        references.set_export_schemas(RefHolder::Client, 1, &Arc::default());
        assert!(references.export_schemas(RefHolder::Client, 1).is_some());
        references.release(RefHolder::Client, 1, 1);
        references.set_export_schemas(RefHolder::Client, 1, &Arc::default());
        assert!(references.export_schemas(RefHolder::Client, 1).is_none());
    }

    #[test]
    fn import_refused_leaves_nothing_behind() {
        let mut references = References::new(1);
        assert_eq!(references.import(&FnRef::Handler(1)), Ok(()));
        assert_eq!(references.import(&FnRef::Handler(1)), Ok(()));
        let refused = FnRef::Client { connection: 1, id: "c1".to_owned() };
        assert_eq!(references.import(&refused), Err(TooManyRefs));
        references.set_import_schemas(&refused, Arc::default());
        assert!(references.import_schemas(&refused).is_none() && !references.is_imported(&refused));
        assert_eq!(references.drop_imports(), (vec![(FnRef::Handler(1), 2)], vec![Freed::Handler(1)]));
    }
}

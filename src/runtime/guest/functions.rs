//! Functions that can be called from outside the script: by the client by reference, by a handler by handle.
//!
//! Client and handlers have a table each, so that neither can call or release what the other holds. Their ids are of one
//! number space: a name such as `f7` means one function only.

use std::sync::Arc;

use super::roots::Root;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::references::Exports;
use crate::schema::FunctionSchemas;

/// Who holds a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefHolder {
    /// The client, until its connection ends.
    Client,
    /// A handler of a server binding.
    Handler,
}

/// Something that can be called by reference.
#[derive(Clone)]
pub(crate) enum Callable {
    /// A function of the script; the number is the prelude's name for it.
    Script(u64, Root),
    /// A function that a handler exported.
    Handler(u64),
    /// A function of the client that travels back to it.
    Import(FnRef),
}

/// One callable is the same as another when its identity is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Script(u64),
    Other(FnRef),
}

impl Callable {
    fn identity(&self) -> Identity {
        match self {
            Self::Script(number, _) => Identity::Script(*number),
            Self::Handler(number) => Identity::Other(FnRef::Handler(*number)),
            Self::Import(name) => Identity::Other(name.clone()),
        }
    }
}

struct Export {
    callable: Callable,
    /// What its receiver declared that it takes and returns.
    schemas: Option<Arc<FunctionSchemas>>,
}

/// All functions held outside.
pub(crate) struct Functions {
    client: Exports<Export, Identity>,
    handlers: Exports<Export, Identity>,
}

impl Functions {
    /// Room for `each_max` functions a holder.
    pub(crate) fn new(each_max: usize) -> Self {
        Self { client: Exports::new(each_max), handlers: Exports::new(each_max) }
    }

    /// Counts one sending of a function; returns its id, or `None` when the holder has too many.
    pub(crate) fn export(&mut self, holder: RefHolder, callable: Callable) -> Option<u64> {
        let next_id = self.next_id();
        let table = self.table_mut(holder);
        table.skip_ids_below(next_id);
        table.export(callable.identity(), Export { callable, schemas: None })
    }

    /// The function of that id, if that holder has it.
    pub(crate) fn get(&self, holder: RefHolder, id: u64) -> Option<Callable> {
        self.table(holder).get(id).map(|export| export.callable.clone())
    }

    /// What the function of that id is to take and return.
    pub(crate) fn schemas(&self, holder: RefHolder, id: u64) -> Option<Arc<FunctionSchemas>> {
        self.table(holder).get(id)?.schemas.clone()
    }

    /// Notes what the function of that id is to take and return.
    pub(crate) fn set_schemas(&mut self, holder: RefHolder, id: u64, schemas: &Arc<FunctionSchemas>) {
        if let Some(export) = self.table_mut(holder).get_mut(id) {
            export.schemas = Some(Arc::clone(schemas));
        }
    }

    /// Releases `count` sendings; returns the function when none is left, to be dropped by the caller.
    pub(crate) fn release(&mut self, holder: RefHolder, id: u64, count: u64) -> Option<Callable> {
        self.table_mut(holder).release(id, count).map(|export| export.callable)
    }

    /// Ends all functions of a holder; the caller drops them.
    pub(crate) fn take_all_of(&mut self, holder: RefHolder) -> Vec<Callable> {
        self.table_mut(holder).drain().map(|export| export.callable).collect()
    }

    /// Whether the script cannot be called from outside.
    pub(crate) fn is_empty(&self) -> bool {
        self.client.is_empty() && self.handlers.is_empty()
    }

    /// How many a holder has.
    pub(crate) fn held_by(&self, holder: RefHolder) -> usize {
        self.table(holder).len()
    }

    /// Goes on with the ids where another table stopped, so that none is used twice.
    pub(crate) fn go_on_from(&mut self, other: &Self) {
        self.client.skip_ids_below(other.next_id());
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        drop(self.client.drain());
        drop(self.handlers.drain());
    }

    fn next_id(&self) -> u64 {
        self.client.next_id().max(self.handlers.next_id())
    }

    fn table(&self, holder: RefHolder) -> &Exports<Export, Identity> {
        match holder {
            RefHolder::Client => &self.client,
            RefHolder::Handler => &self.handlers,
        }
    }

    fn table_mut(&mut self, holder: RefHolder) -> &mut Exports<Export, Identity> {
        match holder {
            RefHolder::Client => &mut self.client,
            RefHolder::Handler => &mut self.handlers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_sent_again_keeps_its_id_and_each_sending_counts() {
        let mut functions = Functions::new(2);
        assert_eq!(functions.export(RefHolder::Client, Callable::Handler(7)), Some(1));
        assert_eq!(functions.export(RefHolder::Client, Callable::Handler(7)), Some(1));
        assert!(functions.release(RefHolder::Client, 1, 1).is_none());
        assert!(functions.get(RefHolder::Client, 1).is_some());
        assert!(functions.release(RefHolder::Client, 1, 1).is_some());
        assert!(functions.get(RefHolder::Client, 1).is_none());
        assert_eq!(functions.export(RefHolder::Client, Callable::Handler(7)), Some(2));
    }

    #[test]
    fn holders_have_separate_counts_and_limits() {
        let mut functions = Functions::new(1);
        assert_eq!(functions.export(RefHolder::Client, Callable::Handler(1)), Some(1));
        assert_eq!(functions.export(RefHolder::Client, Callable::Handler(2)), None);
        assert_eq!(functions.export(RefHolder::Handler, Callable::Handler(1)), Some(2));
        assert!(functions.get(RefHolder::Client, 2).is_none());
        assert!(functions.release(RefHolder::Client, 2, 9).is_none());
        assert_eq!(functions.take_all_of(RefHolder::Client).len(), 1);
        assert!(!functions.is_empty());
    }

    #[test]
    fn release_of_too_much_or_the_unknown_is_harmless() {
        let mut functions = Functions::new(1);
        assert!(functions.release(RefHolder::Client, 9, 1).is_none());
        functions.export(RefHolder::Client, Callable::Handler(1));
        assert!(functions.release(RefHolder::Client, 1, 99).is_some());
    }

    #[test]
    fn holders_share_one_number_space_in_every_context() {
        let mut functions = Functions::new(9);
        let holders = [RefHolder::Handler, RefHolder::Client, RefHolder::Handler, RefHolder::Client];
        let ids: Vec<_> =
            (1..).zip(holders).map(|(n, holder)| functions.export(holder, Callable::Handler(n))).collect();
        assert_eq!(ids, [Some(1), Some(2), Some(3), Some(4)]);
        let mut next = Functions::new(9);
        next.go_on_from(&functions);
        assert_eq!(next.export(RefHolder::Handler, Callable::Handler(1)), Some(5));
        assert_eq!(next.export(RefHolder::Client, Callable::Handler(1)), Some(6));
    }
}

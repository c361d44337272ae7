//! Functions that somebody outside the script may call: the client by reference, a handler by handle.
//!
//! The same function sent again to the same holder keeps its id, and each sending counts one. Ids are never reused:
//! a function whose count fell to zero gets a new one when it is sent again.

use std::collections::HashMap;

use super::roots::Root;

/// Who holds a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// A function that a handler gave away.
    Handler(u64),
    /// A function of the client that travels back to it.
    Import(String),
}

/// One callable is the same as another when its identity is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    Script(u64),
    Handler(u64),
    Import(String),
}

impl Callable {
    fn identity(&self) -> Identity {
        match self {
            Self::Script(number, _) => Identity::Script(*number),
            Self::Handler(number) => Identity::Handler(*number),
            Self::Import(key) => Identity::Import(key.clone()),
        }
    }
}

struct Entry {
    callable: Callable,
    holder: RefHolder,
    count: u64,
}

/// All functions held outside.
pub(crate) struct Functions {
    next: u64,
    entries: HashMap<u64, Entry>,
    ids: HashMap<(RefHolder, Identity), u64>,
    held_by_client: usize,
    each_max: usize,
}

impl Functions {
    /// Room for `each_max` functions a holder.
    pub(crate) fn new(each_max: usize) -> Self {
        Self { next: 1, entries: HashMap::new(), ids: HashMap::new(), held_by_client: 0, each_max }
    }

    /// Counts one sending of a function; gives its id, or `None` when the holder has too many.
    pub(crate) fn export(&mut self, holder: RefHolder, callable: Callable) -> Option<u64> {
        let key = (holder, callable.identity());
        if let Some(id) = self.ids.get(&key)
            && let Some(entry) = self.entries.get_mut(id)
        {
            entry.count += 1;
            return Some(*id);
        }
        if self.held_by(holder) >= self.each_max {
            return None;
        }
        let id = self.next;
        self.next += 1;
        self.ids.insert(key, id);
        self.entries.insert(id, Entry { callable, holder, count: 1 });
        self.held_by_client += usize::from(holder == RefHolder::Client);
        Some(id)
    }

    /// The function of that id, if that holder has it.
    pub(crate) fn get(&self, holder: RefHolder, id: u64) -> Option<Callable> {
        self.entries.get(&id).filter(|entry| entry.holder == holder).map(|entry| entry.callable.clone())
    }

    /// Whether the function of that id is still held.
    pub(crate) fn holds(&self, id: u64) -> bool {
        self.entries.contains_key(&id)
    }

    /// Gives back `count` sendings; what is then held by nobody is returned, to be dropped by the caller.
    pub(crate) fn release(&mut self, holder: RefHolder, id: u64, count: u64) -> Option<Callable> {
        let entry = self.entries.get_mut(&id).filter(|entry| entry.holder == holder)?;
        entry.count = entry.count.saturating_sub(count);
        if entry.count > 0 {
            return None;
        }
        let entry = self.entries.remove(&id)?;
        self.held_by_client -= usize::from(holder == RefHolder::Client);
        self.ids.remove(&(holder, entry.callable.identity()));
        Some(entry.callable)
    }

    /// The connection is over: all that the client held, to be dropped by the caller.
    pub(crate) fn take_all_of(&mut self, holder: RefHolder) -> Vec<Callable> {
        self.ids.retain(|(known, _), _| *known != holder);
        self.held_by_client -= if holder == RefHolder::Client { self.held_by_client } else { 0 };
        let ids: Vec<u64> =
            self.entries.iter().filter(|(_, entry)| entry.holder == holder).map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| self.entries.remove(id)).map(|entry| entry.callable).collect()
    }

    /// Whether anybody outside could call into the script.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many a holder has.
    pub(crate) fn held_by(&self, holder: RefHolder) -> usize {
        match holder {
            RefHolder::Client => self.held_by_client,
            RefHolder::Handler => self.entries.len() - self.held_by_client,
        }
    }

    /// Goes on with the ids where another table stopped, so that none is used twice.
    pub(crate) fn go_on_from(&mut self, other: &Self) {
        self.next = self.next.max(other.next);
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.ids.clear();
        self.held_by_client = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_again_keeps_the_id_and_each_sending_counts() {
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
    fn releasing_too_much_or_the_unknown_is_harmless() {
        let mut functions = Functions::new(1);
        assert!(functions.release(RefHolder::Client, 9, 1).is_none());
        functions.export(RefHolder::Client, Callable::Handler(1));
        assert!(functions.release(RefHolder::Client, 1, 99).is_some());
    }
}

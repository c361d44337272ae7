//! The keys that a walk has met: a large value is mostly a list of rows, which all have the same few.

use super::form::{Form, quoted_length};
use super::read::{KeptName, Name, Names};
use crate::protocol::plain::{FUNCTION_TAG, TAGS};

/// Keys remembered in one walk. Rows have fewer; where two fall into one slot, the later one has it.
const KEYS_KNOWN_MAX: usize = 64;

/// What an object with this key could be taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing else.
    Field,
    /// A tag, if it has no other key.
    Tag,
    /// A function.
    Function,
}

/// A key, ready to be written.
pub(super) struct Known<F: Form> {
    pub(super) key: F::Key,
    /// Its length as JSON text, without the colon.
    pub(super) bytes: usize,
    pub(super) meaning: Meaning,
}

impl<F: Form> Known<F> {
    /// The key of that name, if it is within `bytes_max`.
    pub(super) fn of(name: &str, bytes_max: usize) -> Option<Self> {
        let bytes = quoted_length(name);
        let meaning = match name {
            FUNCTION_TAG => Meaning::Function,
            _ if name.starts_with('$') && TAGS.contains(&name) => Meaning::Tag,
            _ => Meaning::Field,
        };
        (bytes <= bytes_max).then(|| Self { key: F::key_of(name), bytes, meaning })
    }
}

/// The keys of one walk.
pub(super) struct Keys<'js, F: Form> {
    objects: usize,
    slots: Vec<Option<(KeptName<'js>, Known<F>)>>,
}

impl<F: Form> Default for Keys<'_, F> {
    fn default() -> Self {
        Self { objects: 0, slots: Vec::new() }
    }
}

impl<'js, F: Form> Keys<'js, F> {
    /// The walk comes to an object. From the second on keys are kept: most values are but one.
    pub(super) fn enter_object(&mut self) {
        self.objects += 1;
        if self.objects == 2 {
            self.slots.resize_with(KEYS_KNOWN_MAX, || None);
        }
    }

    /// A key that was met before.
    pub(super) fn find(&self, name: Name<'_>) -> Option<&Known<F>> {
        let (kept, known) = self.slots.get(name.slot(KEYS_KNOWN_MAX))?.as_ref()?;
        (kept.name() == name).then_some(known)
    }

    /// Keeps a key for the objects to come.
    pub(super) fn keep(&mut self, names: &Names<'_, 'js>, name: Name<'_>, known: Known<F>) {
        if let Some(slot) = self.slots.get_mut(name.slot(KEYS_KNOWN_MAX)) {
            *slot = Some((names.keep(name), known));
        }
    }
}

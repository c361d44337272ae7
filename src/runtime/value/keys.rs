//! A cache of the keys of a walk: a large value is mostly a list of rows, which all have the same few.

use super::form::{Form, quoted_length};
use super::read::{KeptName, Name, Names};
use crate::protocol::plain::{FUNCTION_TAG, TAGS};

/// Keys cached in one walk. Rows have fewer; where two fall into one slot, the later one has it.
const KEYS_CACHED_MAX: usize = 64;

/// What an object with this key could be mistaken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyMeaning {
    /// Nothing else.
    Field,
    /// A tag, if it has no other key.
    Tag,
    /// A function.
    Function,
}

/// A key, ready to be written.
pub(super) struct CachedKey<F: Form> {
    pub(super) key: F::Key,
    /// Its length as JSON text, without the colon.
    pub(super) bytes: usize,
    pub(super) meaning: KeyMeaning,
}

impl<F: Form> CachedKey<F> {
    /// The key of that name, if it is within `bytes_max`.
    pub(super) fn of(name: &str, bytes_max: usize) -> Option<Self> {
        let bytes = quoted_length(name);
        let meaning = match name {
            FUNCTION_TAG => KeyMeaning::Function,
            _ if name.starts_with('$') && TAGS.contains(&name) => KeyMeaning::Tag,
            _ => KeyMeaning::Field,
        };
        (bytes <= bytes_max).then(|| Self { key: F::key_of(name), bytes, meaning })
    }
}

/// The keys of one walk.
pub(super) struct KeyCache<'js, F: Form> {
    objects: usize,
    slots: Vec<Option<(KeptName<'js>, CachedKey<F>)>>,
}

impl<F: Form> Default for KeyCache<'_, F> {
    fn default() -> Self {
        Self { objects: 0, slots: Vec::new() }
    }
}

impl<'js, F: Form> KeyCache<'js, F> {
    /// Counts an object of the walk. From the second on keys are cached: most values have only one.
    pub(super) fn enter_object(&mut self) {
        self.objects += 1;
        if self.objects == 2 {
            self.slots.resize_with(KEYS_CACHED_MAX, || None);
        }
    }

    /// A cached key.
    pub(super) fn find(&self, name: Name<'_>) -> Option<&CachedKey<F>> {
        let (kept, known) = self.slots.get(name.slot(KEYS_CACHED_MAX))?.as_ref()?;
        (kept.name() == name).then_some(known)
    }

    /// Caches a key.
    pub(super) fn keep(&mut self, names: &Names<'_, 'js>, name: Name<'_>, known: CachedKey<F>) {
        if let Some(slot) = self.slots.get_mut(name.slot(KEYS_CACHED_MAX)) {
            *slot = Some((names.keep(name), known));
        }
    }
}

//! What a turn owns while it calls into QuickJS.
//!
//! A turn past the hard limit is abandoned from inside an allocation: its stack is taken away as it is, and nothing on it
//! is dropped ([`super::slice::abandon`]). So what runs on such a stack owns nothing by itself while it calls into QuickJS
//! but values of the script, which go with their heap. Everything else it [keeps](keep): in a list of the turn, which is
//! dropped in its place. Nor does it hold a borrow of the session meanwhile.
//!
//! A kept value is changed only between two calls into QuickJS, through a borrow that ends before the next: then it is whole
//! at every moment at which the turn may end.
//!
//! One of the modules with `unsafe`: the list has no owner but its entries.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt::{self, Debug};
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

use rquickjs::{Ctx, FromJs, IntoJs, String as JsString, Value};

use super::slice;

/// The values that a turn keeps, newest first.
#[derive(Debug)]
pub(super) struct KeptList(Cell<*mut Link>);

/// What an entry of the list begins with.
struct Link {
    next: *mut Link,
    /// What points to this entry: the list, or the `next` of another one. Null outside a turn.
    place: *mut *mut Link,
    drop: unsafe fn(*mut Link),
}

#[repr(C)]
struct Entry<T> {
    link: Link,
    value: T,
}

#[cfg(test)]
thread_local! {
    /// How many values of this thread are kept.
    pub(crate) static KEPT: Cell<usize> = const { Cell::new(0) };
}

/// See the module. Values of the script cannot be kept: they have a lifetime, and their heap may be in the middle of a change.
pub(crate) struct Kept<T: 'static>(NonNull<Entry<T>>);

/// Keeps a value for the running turn, until the handle is dropped or the turn is abandoned.
pub(crate) fn keep<T: 'static>(value: T) -> Kept<T> {
    let link = Link { next: null_mut(), place: null_mut(), drop: drop_entry::<T> };
    #[cfg(test)]
    KEPT.set(KEPT.get() + 1);
    let entry = NonNull::from(Box::leak(Box::new(Entry { link, value })));
    slice::with_kept(|list| {
        let link = entry.as_ptr().cast::<Link>();
        // SAFETY: entries are in the list from here until they are dropped, and only one thread has it.
        unsafe {
            (*link).place = list.0.as_ptr();
            (*link).next = list.0.get();
            if let Some(next) = (*link).next.as_mut() {
                next.place = &raw mut (*link).next;
            }
        }
        list.0.set(link);
    });
    Kept(entry)
}

/// # Safety
///
/// The link is the beginning of an entry of that type, which nothing refers to any more.
unsafe fn drop_entry<T>(link: *mut Link) {
    #[cfg(test)]
    KEPT.set(KEPT.get() - 1);
    // SAFETY: guaranteed by the caller; it came from a box.
    drop(unsafe { Box::from_raw(link.cast::<Entry<T>>()) });
}

impl<T> Kept<T> {
    /// The value, which is not kept any more.
    pub(crate) fn take(self) -> T {
        self.unlink();
        // SAFETY: the entry came from a box, is in no list, and `self` is forgotten.
        let entry = unsafe { Box::from_raw(self.0.as_ptr()) };
        std::mem::forget(self);
        #[cfg(test)]
        KEPT.set(KEPT.get() - 1);
        entry.value
    }

    fn unlink(&self) {
        // SAFETY: the entry is live, and so are its neighbours. The list outlives them: it lies at the base of their stack.
        unsafe {
            let link = self.0.as_ptr().cast::<Link>();
            if let Some(place) = (*link).place.as_mut() {
                *place = (*link).next;
                if let Some(next) = (*link).next.as_mut() {
                    next.place = place;
                }
            }
        }
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the entry lives as long as its handle.
        unsafe { &(*self.0.as_ptr()).value }
    }
}

impl<T> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and there is one handle.
        unsafe { &mut (*self.0.as_ptr()).value }
    }
}

impl<T: Debug> Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        self.unlink();
        // SAFETY: the entry is in no list, and its handle goes.
        unsafe { drop_entry::<T>(self.0.as_ptr().cast()) }
    }
}

impl<'js> FromJs<'js> for Kept<String> {
    fn from_js(ctx: &Ctx<'js>, value: Value<'js>) -> rquickjs::Result<Self> {
        String::from_js(ctx, value).map(keep)
    }
}

impl<'js> IntoJs<'js> for Kept<String> {
    fn into_js(self, ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
        JsString::from_str(ctx.clone(), &self).map(JsString::into_value)
    }
}

impl KeptList {
    pub(super) fn new() -> Self {
        Self(Cell::new(null_mut()))
    }

    /// The first entry, for [`drop_kept`].
    pub(super) fn take(&self) -> KeptEntries {
        KeptEntries(self.0.replace(null_mut()))
    }
}

/// What an abandoned turn kept.
#[derive(Debug)]
pub(super) struct KeptEntries(*mut Link);

impl KeptEntries {
    /// Drops all of it, the newest first.
    ///
    /// # Safety
    ///
    /// The stack that has the handles is never run again.
    pub(super) unsafe fn drop_all(self) {
        let mut link = self.0;
        while !link.is_null() {
            // SAFETY: an entry that was not dropped; its handle is not used again.
            unsafe {
                let next = (*link).next;
                // Dropping a value may drop others that it refers to, but no handle.
                ((*link).drop)(link);
                link = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::slice::{Slice, Turn, abandon, suspend};
    use super::*;

    fn turn(work: impl FnOnce() + 'static) -> Turn<()> {
        Turn::new(64 << 10, work).unwrap()
    }

    #[test]
    fn kept_value_goes_with_its_handle() {
        let counted = Rc::new(());
        let kept = keep(Rc::clone(&counted));
        assert_eq!(Rc::strong_count(&counted), 2);
        drop(kept.take());
        drop(keep(Rc::clone(&counted)));
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    fn handles_end_in_any_order() {
        let counted = Rc::new(());
        let inside = Rc::clone(&counted);
        let mut turn = turn(move || {
            let mut kept: Vec<Kept<Rc<()>>> = (0..5).map(|_| keep(Rc::clone(&inside))).collect();
            for at in [2, 3, 0, 1, 0] {
                drop(kept.remove(at));
            }
            assert_eq!(Rc::strong_count(&inside), 2);
        });
        assert!(matches!(turn.resume(), Slice::Done(())));
        drop(turn);
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    fn abandoned_turn_drops_what_it_kept_and_no_other() {
        let counted = Rc::new(());
        let start = |is_abandoned: bool| {
            let inside = keep(Rc::clone(&counted));
            turn(move || {
                let kept = keep(inside.take());
                let _second = keep((Rc::clone(&kept), String::from("text")));
                drop(keep(3));
                suspend();
                if is_abandoned {
                    abandon();
                }
            })
        };
        let (mut first, mut second) = (start(true), start(false));
        assert!(matches!((first.resume(), second.resume()), (Slice::Suspended, Slice::Suspended)));
        assert_eq!(Rc::strong_count(&counted), 5);
        assert!(matches!(first.resume(), Slice::Abandoned));
        assert_eq!(Rc::strong_count(&counted), 3);
        assert!(matches!(second.resume(), Slice::Done(())));
        assert_eq!(Rc::strong_count(&counted), 1);
    }
}

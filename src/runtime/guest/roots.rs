//! JavaScript values that are held from outside between turns.
//!
//! QuickJS has no defence against a value that is freed after its context. So such a value stays in a table of the context
//! it belongs to, and the session has only its number. When the context ends, the table is emptied first.
//!
//! The table is an array in the script's own heap, which no script sees: a heap that is continued elsewhere brings
//! its roots along, and only the place of the array has to be known ([`RootsData`]). A slot that is free has a tag that no value
//! of JavaScript has, and the number of the next free slot.
//!
//! One of the modules with `unsafe`: it owns the array by its address.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::NonNull;

use rquickjs::{Ctx, Error, FromJs, IntoJs, Value as JsValue, qjs};
use serde::{Deserialize, Serialize};

use super::super::raw;
use crate::session::RootId;

/// The number of the next free slot where no slot is free.
const NO_SLOT: u32 = u32::MAX;

/// How a new slot is defined: as a plain property, which no setter of the script has a part in.
const PLAIN: i32 = qjs::JS_PROP_C_W_E.cast_signed();

/// Where in its heap the table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RootsData {
    array: usize,
    length: u32,
    next_free: u32,
}

#[derive(Clone, Copy)]
struct Table {
    context: NonNull<qjs::JSContext>,
    array: qjs::JSValue,
}

/// The values of one context that are held from outside.
pub(crate) struct Roots {
    table: Cell<Option<Table>>,
    length: Cell<u32>,
    next_free: Cell<u32>,
}

impl Default for Roots {
    /// No table: nothing can be held.
    fn default() -> Self {
        Self { table: Cell::new(None), length: Cell::new(0), next_free: Cell::new(NO_SLOT) }
    }
}

impl Roots {
    /// Makes the table of a context, which is to be [cleared](Self::clear) before the context ends.
    pub(crate) fn create(&self, ctx: &Ctx<'_>) -> rquickjs::Result<()> {
        // SAFETY: the context is live. The reference to the array is kept until `clear`.
        let array = unsafe {
            let array = raw::owned(ctx, qjs::JS_NewArray(ctx.as_raw().as_ptr()))?;
            qjs::JS_DupValue(ctx.as_raw().as_ptr(), array.as_raw())
        };
        self.table.set(Some(Table { context: ctx.as_raw(), array }));
        Ok(())
    }

    /// Takes over the table of a heap that is continued.
    ///
    /// # Safety
    ///
    /// [`Self::data`] returned this data for this very context, and the heap has not changed since.
    pub(crate) unsafe fn restore(&self, context: NonNull<qjs::JSContext>, data: RootsData) {
        let array = qjs::JS_MKPTR(qjs::JS_TAG_OBJECT, std::ptr::with_exposed_provenance_mut(data.array));
        self.table.set(Some(Table { context, array }));
        self.length.set(data.length);
        self.next_free.set(data.next_free);
    }

    /// What [`Self::restore`] needs to know; `None` without a table.
    pub(crate) fn data(&self) -> Option<RootsData> {
        // SAFETY: the array is an object, whose value is a pointer.
        let array = unsafe { qjs::JS_VALUE_GET_PTR(self.table.get()?.array) };
        let (length, next_free) = (self.length.get(), self.next_free.get());
        Some(RootsData { array: array.expose_provenance(), length, next_free })
    }

    /// Holds a value until it is [released](Self::release).
    pub(crate) fn hold<'js>(&self, ctx: &Ctx<'js>, value: impl IntoJs<'js>) -> rquickjs::Result<RootId> {
        let value = value.into_js(ctx)?;
        let table = self.table.get().ok_or(Error::Unknown)?;
        // SAFETY: the value belongs to the context; the table gets a reference of its own.
        let held = unsafe { qjs::JS_DupValue(table.context.as_ptr(), value.as_raw()) };
        let slot = self.next_free.get();
        if slot != NO_SLOT {
            // SAFETY: a free slot has the number of the next.
            self.next_free.set(unsafe { qjs::JS_VALUE_GET_INT(table.read(slot)).cast_unsigned() });
            table.write(slot, held);
            return Ok(RootId(slot));
        }
        let slot = self.length.get();
        // SAFETY: array and context are live; the reference is QuickJS's now, whether it succeeds or not.
        let status = unsafe {
            qjs::JS_DefinePropertyValueUint32(table.context.as_ptr(), table.array, slot, held, PLAIN)
        };
        if status < 0 {
            ctx.catch();
            return Err(Error::Allocation);
        }
        self.length.set(slot + 1);
        Ok(RootId(slot))
    }

    /// The value; an error when it is not held any more.
    pub(crate) fn get<'js, T: FromJs<'js>>(&self, ctx: &Ctx<'js>, root: RootId) -> rquickjs::Result<T> {
        let table = self.table.get().filter(|table| table.context == ctx.as_raw());
        let value = table.and_then(|table| self.held(table, root)).ok_or(Error::UnrelatedRuntime)?;
        // SAFETY: the value belongs to the context, and the reference is ours.
        T::from_js(ctx, unsafe { JsValue::from_raw(ctx.clone(), value) })
    }

    /// Frees a value, and with it what only it refers to. Only while the JavaScript stack is empty, or inside a turn.
    pub(crate) fn release(&self, root: RootId) {
        let Some(table) = self.table.get() else { return };
        let Some(value) = self.held(table, root) else { return };
        let next = qjs::JS_MKVAL(qjs::JS_TAG_UNINITIALIZED, self.next_free.get().cast_signed());
        table.write(root.0, next);
        self.next_free.set(root.0);
        // SAFETY: the reference that `held` returned. Last: freeing a value may free others.
        unsafe { qjs::JS_FreeValue(table.context.as_ptr(), value) }
    }

    /// Frees all values: the context is about to end.
    pub(crate) fn clear(&self) {
        if let Some(table) = self.table.take() {
            // SAFETY: the reference of `create`, which is not used any more.
            unsafe { qjs::JS_FreeValue(table.context.as_ptr(), table.array) }
        }
        self.length.set(0);
        self.next_free.set(NO_SLOT);
    }

    /// Forgets the table without freeing any value: the heap is let go of as it is.
    pub(crate) fn forget(&self) {
        self.table.set(None);
    }

    /// A reference to a value that is held.
    fn held(&self, table: Table, root: RootId) -> Option<qjs::JSValue> {
        if root.0 >= self.length.get() {
            return None;
        }
        let value = table.read(root.0);
        // SAFETY: any value has a tag.
        let tag = unsafe { qjs::JS_VALUE_GET_TAG(value) };
        (tag != qjs::JS_TAG_UNINITIALIZED).then_some(value)
    }

    /// How many values are held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let Some(table) = self.table.get() else { return 0 };
        let held = |slot: &u32| {
            let value = self.held(table, RootId(*slot));
            // SAFETY: the reference that `held` returned.
            value.inspect(|value| unsafe { qjs::JS_FreeValue(table.context.as_ptr(), *value) }).is_some()
        };
        (0..self.length.get()).filter(held).count()
    }
}

impl Table {
    /// A reference to what is in a slot below the length.
    fn read(self, slot: u32) -> qjs::JSValue {
        // SAFETY: array and context are live; an element of an array is read without running anything.
        unsafe { qjs::JS_GetPropertyUint32(self.context.as_ptr(), self.array, slot) }
    }

    /// Replaces what is in a slot below the length; takes the reference over.
    fn write(self, slot: u32, value: qjs::JSValue) {
        // SAFETY: as above. An element that is there is replaced in place, which cannot fail.
        unsafe { qjs::JS_SetPropertyUint32(self.context.as_ptr(), self.array, slot, value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rquickjs::{Context, Function, Runtime};

    #[test]
    fn root_holds_its_value_until_it_is_released() {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        let roots = Roots::default();
        context.with(|ctx| {
            roots.create(&ctx).unwrap();
            let function: Function<'_> = ctx.eval("() => 7").unwrap();
            let first = roots.hold(&ctx, function.clone()).unwrap();
            let second = roots.hold(&ctx, function).unwrap();
            roots.release(first);
            assert!(roots.get::<Function<'_>>(&ctx, first).is_err());
            assert_eq!(roots.get::<Function<'_>>(&ctx, second).unwrap().call::<_, i32>(()).unwrap(), 7);
            roots.release(second);
            assert_eq!(roots.len(), 0);
            assert_eq!(roots.hold(&ctx, 1).unwrap(), second, "the slot freed last is used again");
            roots.release(RootId(99));
            roots.clear();
        });
    }

    #[test]
    fn released_roots_are_freed_and_their_slots_reused() {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        let roots = Roots::default();
        context.with(|ctx| {
            roots.create(&ctx).unwrap();
            ctx.eval::<(), _>("var weak = Array.from({length: 100}, () => ({})); var refs = weak.map((x) => new WeakRef(x));")
                .unwrap();
            let mut held: Vec<RootId> = Vec::new();
            for index in 0..100 {
                let value: JsValue<'_> = ctx.eval(format!("weak[{index}]")).unwrap();
                held.push(roots.hold(&ctx, value).unwrap());
            }
            let alive = || {
                ctx.run_gc();
                ctx.eval::<u32, _>("weak = null; refs.filter((ref) => ref.deref() !== undefined).length").unwrap()
            };
            assert_eq!(alive(), 100);
            held.iter().skip(1).step_by(2).for_each(|root| roots.release(*root));
            assert_eq!((alive(), roots.len()), (50, 50));
            let again: Vec<RootId> = (0..50).map(|number| roots.hold(&ctx, number).unwrap()).collect();
            assert!(again.iter().all(|root| root.0 < 100 && root.0 % 2 == 1), "{again:?}");
            assert_eq!(roots.get::<i32>(&ctx, again[7]).unwrap(), 7);
            assert_eq!(roots.hold(&ctx, 1).unwrap(), RootId(100));
            roots.clear();
            assert_eq!(alive(), 0);
            assert!(roots.hold(&ctx, 1).is_err());
        });
    }
}

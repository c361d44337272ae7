//! JavaScript values that the session holds on to between turns.
//!
//! QuickJS has no defence against a value that is freed after its context. So such a value stays in a table of the context
//! it belongs to, and the session has only a handle. When the context ends, the table is emptied first: a handle that is
//! left over, wherever it is, then stands for nothing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rquickjs::{Ctx, FromJs, IntoJs, Persistent, Value as JsValue};

/// The values of one context that are held from outside.
#[derive(Default)]
pub(crate) struct Roots {
    slots: RefCell<Vec<Option<Persistent<JsValue<'static>>>>>,
    free: RefCell<Vec<usize>>,
    is_closed: Cell<bool>,
}

/// A handle to one of them, which is held as long as the handle and the context live.
///
/// Dropping it may free objects, so it is dropped only while the JavaScript stack is empty.
pub(crate) struct Root {
    roots: Rc<Roots>,
    slot: usize,
}

impl Roots {
    /// Holds a value.
    pub(crate) fn hold<'js>(
        self: &Rc<Self>,
        ctx: &Ctx<'js>,
        value: impl IntoJs<'js>,
    ) -> rquickjs::Result<Root> {
        let value = Persistent::save(ctx, value.into_js(ctx)?);
        Ok(Root { roots: Rc::clone(self), slot: self.place(value) })
    }

    fn place(&self, value: Persistent<JsValue<'static>>) -> usize {
        let mut slots = self.slots.borrow_mut();
        match self.free.borrow_mut().pop() {
            Some(slot) => {
                slots[slot] = Some(value);
                slot
            }
            None => {
                slots.push(Some(value));
                slots.len() - 1
            }
        }
    }

    /// Lets go of all values: the context is about to end.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        drop(self.slots.take());
        drop(self.free.take());
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.slots.borrow().iter().flatten().count()
    }
}

impl Root {
    /// The value; an error when this is not its context, or the context has ended.
    pub(crate) fn get<'js, T: FromJs<'js>>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<T> {
        let value = self.roots.slots.borrow().get(self.slot).cloned().flatten();
        let value = value.ok_or(rquickjs::Error::UnrelatedRuntime)?.restore(ctx)?;
        T::from_js(ctx, value)
    }
}

impl Clone for Root {
    fn clone(&self) -> Self {
        let value = self.roots.slots.borrow().get(self.slot).cloned().flatten();
        // Of a context that has ended there is nothing to hold; the slot is never looked at again.
        let slot = value.map_or(self.slot, |value| self.roots.place(value));
        Self { roots: Rc::clone(&self.roots), slot }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if self.roots.is_closed.get() {
            return;
        }
        let value = self.roots.slots.borrow_mut().get_mut(self.slot).and_then(Option::take);
        self.roots.free.borrow_mut().push(self.slot);
        // Last: freeing a value may free others, and nothing is borrowed any more.
        drop(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rquickjs::{Context, Function, Runtime};

    #[test]
    fn a_root_holds_its_value_until_it_is_dropped() {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        let roots = Rc::new(Roots::default());
        context.with(|ctx| {
            let function: Function<'_> = ctx.eval("() => 7").unwrap();
            let first = roots.hold(&ctx, function).unwrap();
            let second = first.clone();
            drop(first);
            assert_eq!(second.get::<Function<'_>>(&ctx).unwrap().call::<_, i32>(()).unwrap(), 7);
            drop(second);
            assert_eq!(roots.held(), 0);
            assert_eq!(roots.hold(&ctx, 1).unwrap().slot, 1, "the slot freed last is used again");
        });
    }

    #[test]
    fn a_root_may_outlive_its_context() {
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        let roots = Rc::new(Roots::default());
        let root = context.with(|ctx| roots.hold(&ctx, ctx.eval::<JsValue<'_>, _>("({})").unwrap()).unwrap());
        roots.close();
        drop((context, runtime));
        let copy = root.clone();
        let other = Context::full(&Runtime::new().unwrap()).unwrap();
        other.with(|ctx| assert!(root.get::<JsValue<'_>>(&ctx).is_err()));
        drop((root, copy));
    }
}

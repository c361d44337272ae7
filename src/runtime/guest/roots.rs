//! JavaScript values that are held from outside between turns.
//!
//! QuickJS has no defence against a value that is freed after its context. So such a value stays in a table of the context
//! it belongs to, and the session has only its number. When the context ends, the table is emptied first.

use std::cell::RefCell;

use rquickjs::{Ctx, FromJs, IntoJs, Persistent, Value as JsValue};

use crate::session::RootId;

/// The values of one context that are held from outside.
#[derive(Default)]
pub(crate) struct Roots {
    slots: RefCell<Vec<Option<Persistent<JsValue<'static>>>>>,
    free: RefCell<Vec<u32>>,
}

impl Roots {
    /// Holds a value until it is [released](Self::release).
    pub(crate) fn hold<'js>(&self, ctx: &Ctx<'js>, value: impl IntoJs<'js>) -> rquickjs::Result<RootId> {
        let value = Persistent::save(ctx, value.into_js(ctx)?);
        let mut slots = self.slots.borrow_mut();
        if let Some(slot) = self.free.borrow_mut().pop() {
            if let Some(place) = slots.get_mut(slot as usize) {
                *place = Some(value);
            }
            return Ok(RootId(slot));
        }
        slots.push(Some(value));
        Ok(RootId(u32::try_from(slots.len() - 1).unwrap_or(u32::MAX)))
    }

    /// The value; an error when it is not held any more.
    pub(crate) fn get<'js, T: FromJs<'js>>(&self, ctx: &Ctx<'js>, root: RootId) -> rquickjs::Result<T> {
        let value = self.slots.borrow().get(root.0 as usize).cloned().flatten();
        let value = value.ok_or(rquickjs::Error::UnrelatedRuntime)?.restore(ctx)?;
        T::from_js(ctx, value)
    }

    /// Frees a value, and with it what only it refers to. Only while the JavaScript stack is empty, or inside a turn.
    pub(crate) fn release(&self, root: RootId) {
        let value = self.slots.borrow_mut().get_mut(root.0 as usize).and_then(Option::take);
        if value.is_some() {
            self.free.borrow_mut().push(root.0);
        }
        // Last: freeing a value may free others, and nothing is borrowed any more.
        drop(value);
    }

    /// Frees all values: the context is about to end.
    pub(crate) fn clear(&self) {
        drop(self.slots.take());
        drop(self.free.take());
    }

    /// How many values are held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.borrow().iter().flatten().count()
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
}

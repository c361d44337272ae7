//! Reading an object and its strings in place: a large value is all properties, and for each of them rquickjs would
//! make an atom, a string and a copy of that string, and count its context up and down for each of the three.
//!
//! One of the modules with `unsafe`: names and strings are borrowed from QuickJS and freed when dropped. A read
//! may run code of the script (a getter, a proxy); an exception is then pending, for the caller to catch.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::null_mut;
use std::{slice, str};

use rquickjs::atom::PredefinedAtom;
use rquickjs::{Ctx, Error, Object, String as JsString, Value, qjs};

use super::super::raw::owned;

#[allow(clippy::cast_possible_wrap)]
const ENUMERABLE_STRINGS: i32 = (qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY) as i32;

/// The name of a property, as long as the [`Names`] or the [`KeptName`] live that it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name<'a>(qjs::JSAtom, PhantomData<&'a ()>);

impl Name<'_> {
    /// One of `slots` that it always falls into.
    pub(crate) fn slot(self, slots: usize) -> usize {
        self.0 as usize % slots
    }
}

/// The names of an object's own enumerable properties.
pub(crate) struct Names<'a, 'js> {
    object: &'a Object<'js>,
    first: *mut qjs::JSPropertyEnum,
    count: u32,
}

impl<'a, 'js> Names<'a, 'js> {
    /// Reads the names of an object.
    pub(crate) fn of(object: &'a Object<'js>) -> rquickjs::Result<Self> {
        let (mut first, mut count) = (null_mut(), 0);
        let context = object.ctx().as_raw().as_ptr();
        let raw = object.as_value().as_raw();
        // SAFETY: object and context are live and belong together; the list that is made is ours to free.
        let status = unsafe {
            qjs::JS_GetOwnPropertyNames(context, &raw mut first, &raw mut count, raw, ENUMERABLE_STRINGS)
        };
        if status < 0 { Err(Error::Exception) } else { Ok(Self { object, first, count }) }
    }

    /// Iterates over the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Name<'_>> {
        // SAFETY: QuickJS made a list of that many; of none it makes no list.
        let names = match self.count {
            0 => &[],
            count => unsafe { slice::from_raw_parts(self.first, count as usize) },
        };
        names.iter().map(|entry| Name(entry.atom, PhantomData))
    }

    /// The value of the property.
    pub(crate) fn read(&self, name: Name<'_>) -> rquickjs::Result<Value<'js>> {
        let ctx = self.object.ctx();
        // SAFETY: the object is live, and so is the name while `self` is; the caller owns the returned value.
        unsafe {
            let raw = self.object.as_value().as_raw();
            owned(ctx, qjs::JS_GetProperty(ctx.as_raw().as_ptr(), raw, name.0))
        }
    }

    /// The name as a string of JavaScript.
    pub(crate) fn string(&self, name: Name<'_>) -> rquickjs::Result<Value<'js>> {
        let ctx = self.object.ctx();
        // SAFETY: as above.
        unsafe { owned(ctx, qjs::JS_AtomToString(ctx.as_raw().as_ptr(), name.0)) }
    }

    /// Keeps a name for longer.
    pub(crate) fn keep(&self, name: Name<'_>) -> KeptName<'js> {
        let ctx = self.object.ctx().clone();
        // SAFETY: the name is live, and counted once more until `KeptName` is dropped.
        let atom = unsafe { qjs::JS_DupAtom(ctx.as_raw().as_ptr(), name.0) };
        KeptName { ctx, atom }
    }
}

impl Drop for Names<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: the list is the one that QuickJS made for us, and is freed once.
        unsafe { qjs::JS_FreePropertyEnum(self.object.ctx().as_raw().as_ptr(), self.first, self.count) }
    }
}

/// A name that outlives the object it was found on.
pub(crate) struct KeptName<'js> {
    ctx: Ctx<'js>,
    atom: qjs::JSAtom,
}

impl KeptName<'_> {
    /// The name.
    pub(crate) fn name(&self) -> Name<'_> {
        Name(self.atom, PhantomData)
    }
}

impl Drop for KeptName<'_> {
    fn drop(&mut self) {
        // SAFETY: counted by `Names::keep`.
        unsafe { qjs::JS_FreeAtom(self.ctx.as_raw().as_ptr(), self.atom) }
    }
}

/// The text of a string, mostly where QuickJS has it.
pub(crate) struct Text<'a, 'js> {
    ctx: &'a Ctx<'js>,
    first: *const u8,
    bytes: usize,
}

impl<'a, 'js> Text<'a, 'js> {
    /// Of a primitive string; this runs no code of the script.
    pub(crate) fn of(string: &'a JsString<'js>) -> rquickjs::Result<Self> {
        Self::of_value(string.ctx(), string.as_value())
    }

    /// Of a string that is a value.
    pub(crate) fn of_value(ctx: &'a Ctx<'js>, string: &Value<'js>) -> rquickjs::Result<Self> {
        let mut bytes = 0;
        // SAFETY: string and context are live and belong together; the result is freed when `self` is dropped.
        let first =
            unsafe { qjs::JS_ToCStringLen2(ctx.as_raw().as_ptr(), &raw mut bytes, string.as_raw(), false) };
        if first.is_null() {
            return Err(Error::Exception);
        }
        Ok(Self { ctx, first: first.cast(), bytes: usize::try_from(bytes).unwrap_or_default() })
    }

    /// The text; `None` when a surrogate stands alone in it.
    pub(crate) fn get(&self) -> Option<&str> {
        // SAFETY: QuickJS returned a text of that length, which lives until it is freed.
        str::from_utf8(unsafe { slice::from_raw_parts(self.first, self.bytes) }).ok()
    }
}

impl Drop for Text<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: returned by QuickJS, and freed once.
        unsafe { qjs::JS_FreeCString(self.ctx.as_raw().as_ptr(), self.first.cast()) }
    }
}

/// The element at an index.
pub(crate) fn element<'js>(array: &Object<'js>, index: u32) -> rquickjs::Result<Value<'js>> {
    let ctx = array.ctx();
    // SAFETY: array and context are live and belong together; the caller owns the returned value.
    unsafe { owned(ctx, qjs::JS_GetPropertyUint32(ctx.as_raw().as_ptr(), array.as_value().as_raw(), index)) }
}

/// How many elements a list says it has.
pub(crate) fn length(list: &Object<'_>) -> rquickjs::Result<usize> {
    let mut length = 0;
    // SAFETY: as above.
    let status =
        unsafe { qjs::JS_GetLength(list.ctx().as_raw().as_ptr(), list.as_value().as_raw(), &raw mut length) };
    if status < 0 { Err(Error::Exception) } else { Ok(usize::try_from(length).unwrap_or_default()) }
}

/// Whether an object or what it inherits from has a property.
pub(crate) fn has(object: &Object<'_>, name: PredefinedAtom) -> rquickjs::Result<bool> {
    let context = object.ctx().as_raw().as_ptr();
    // SAFETY: as above; a predefined name is never freed.
    match unsafe { qjs::JS_HasProperty(context, object.as_value().as_raw(), name as u32) } {
        0 => Ok(false),
        1.. => Ok(true),
        _ => Err(Error::Exception),
    }
}

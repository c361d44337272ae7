//! What kind of object a value is, by QuickJS's own class and not by anything a script can change.
//!
//! One of the modules with `unsafe`: QuickJS has these functions, rquickjs does not wrap them yet.
#![allow(unsafe_code)]

use rquickjs::{Object, Value, qjs};

/// The objects that have a form of their own on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Array,
    Function,
    Date,
    Map,
    Set,
    Buffer,
    View,
    Error,
    Proxy,
    /// `new String(...)`: each of its characters is a property.
    BoxedString,
    Promise,
    RegExp,
    /// Contents that nothing can list, and what a script calls it.
    Opaque(&'static str),
    /// Something that is listed only by using it up.
    Iterator,
    /// Anything else: own enumerable properties.
    Plain,
}

/// QuickJS's number for the class of `{}`: the first in its list, and by far the most objects.
const PLAIN_OBJECT: qjs::JSClassID = 1;

/// QuickJS's numbers for the classes of iterators and generators, from the first to the last, and of asynchronous generators.
const ITERATORS: std::ops::RangeInclusive<qjs::JSClassID> = 41..=49;
const ASYNC_GENERATOR: qjs::JSClassID = 60;

/// QuickJS's number for the class of `new String`.
const STRING_OBJECT: qjs::JSClassID = 5;

impl Class {
    /// The class of an object.
    pub(crate) fn of(object: &Object<'_>) -> Self {
        let value: &Value<'_> = object.as_value();
        // SAFETY: a live value, of which only the class id is read.
        match unsafe { qjs::JS_GetClassID(value.as_raw()) } {
            PLAIN_OBJECT => return Self::Plain,
            STRING_OBJECT => return Self::BoxedString,
            _ => {}
        }
        if value.is_array() {
            return Self::Array;
        }
        if value.is_function() {
            return Self::Function;
        }
        if value.is_proxy() {
            return Self::Proxy;
        }
        if value.is_promise() {
            return Self::Promise;
        }
        let raw = value.as_raw();
        // SAFETY: `raw` is a live value, borrowed from `object`; each call only reads its tag and class id.
        unsafe {
            if qjs::JS_IsError(raw) {
                Self::Error
            } else if qjs::JS_IsDate(raw) {
                Self::Date
            } else if qjs::JS_IsMap(raw) {
                Self::Map
            } else if qjs::JS_IsSet(raw) {
                Self::Set
            } else if qjs::JS_IsArrayBuffer(raw) {
                Self::Buffer
            } else if qjs::JS_GetTypedArrayType(raw) >= 0 {
                Self::View
            } else if qjs::JS_IsRegExp(raw) {
                Self::RegExp
            } else if qjs::JS_IsWeakMap(raw) {
                Self::Opaque("a WeakMap")
            } else if qjs::JS_IsWeakSet(raw) {
                Self::Opaque("a WeakSet")
            } else if qjs::JS_IsWeakRef(raw) {
                Self::Opaque("a WeakRef")
            } else if ITERATORS.contains(&qjs::JS_GetClassID(raw))
                || qjs::JS_GetClassID(raw) == ASYNC_GENERATOR
            {
                Self::Iterator
            } else {
                Self::Plain
            }
        }
    }
}

/// Length of a string in UTF-16 units, read without turning it into bytes: it may be half a gigabyte.
pub(crate) fn string_units(string: &rquickjs::String<'_>) -> usize {
    let mut units = 0;
    let context = string.ctx().as_raw();
    // SAFETY: the context and the string are live and belong together; of a primitive string only the length is
    // read, which runs no code of the script.
    let status = unsafe { qjs::JS_GetLength(context.as_ptr(), string.as_value().as_raw(), &raw mut units) };
    if status == 0 { usize::try_from(units).unwrap_or(usize::MAX) } else { usize::MAX }
}

/// A part of a buffer, copied; `None` when the buffer does not have it.
pub(crate) fn copy_bytes(
    buffer: &rquickjs::ArrayBuffer<'_>,
    offset: usize,
    length: usize,
) -> Option<Vec<u8>> {
    let bytes = buffer.as_raw()?;
    // SAFETY: the buffer is alive and attached, and no JavaScript runs while its bytes are copied.
    let bytes = unsafe { bytes.as_ref() };
    bytes.get(offset..offset.checked_add(length)?).map(<[u8]>::to_vec)
}

//! Defining a property of a fresh object, without the overhead of a general definition: for every property of every
//! value that comes in, rquickjs would make and drop a getter, a setter and a descriptor that are not there.
//!
//! One of the modules with `unsafe`: QuickJS has a function for this that rquickjs does not wrap.
#![allow(unsafe_code)]

use rquickjs::{Error, Object, Value, qjs};

#[allow(clippy::cast_possible_wrap)]
const PLAIN: i32 = (qjs::JS_PROP_C_W_E | qjs::JS_PROP_THROW) as i32;

/// Defines `object[key]` as a plain property; no setter and no prototype is involved.
pub(crate) fn field(object: &Object<'_>, key: &str, value: &Value<'_>) -> rquickjs::Result<()> {
    let context = object.ctx().as_raw().as_ptr();
    // SAFETY: the context is live and entered, object and value belong to it. The atom is freed by us, and the copy of
    // the value by QuickJS, whether it succeeds or not.
    let status = unsafe {
        let atom = qjs::JS_NewAtomLen(context, key.as_ptr().cast(), key.len() as _);
        if atom == qjs::JS_ATOM_NULL {
            return Err(Error::Exception);
        }
        let value = qjs::JS_DupValue(context, value.as_raw());
        let status = qjs::JS_DefinePropertyValue(context, object.as_value().as_raw(), atom, value, PLAIN);
        qjs::JS_FreeAtom(context, atom);
        status
    };
    defined(status)
}

/// Defines `array[index]` in the same way.
pub(crate) fn element(array: &Object<'_>, index: u32, value: &Value<'_>) -> rquickjs::Result<()> {
    let context = array.ctx().as_raw().as_ptr();
    // SAFETY: as above.
    let status = unsafe {
        let value = qjs::JS_DupValue(context, value.as_raw());
        qjs::JS_DefinePropertyValueUint32(context, array.as_value().as_raw(), index, value, PLAIN)
    };
    defined(status)
}

/// Converts a status. After a failure an exception is pending, for the caller to catch.
fn defined(status: i32) -> rquickjs::Result<()> {
    if status < 0 { Err(Error::Exception) } else { Ok(()) }
}

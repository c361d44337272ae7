//! The result of a raw call of QuickJS: a value, or a pending exception.
//!
//! One of the modules with `unsafe`: it takes ownership of the value.
#![allow(unsafe_code)]

use rquickjs::{Ctx, FromJs as _, Value, qjs};

/// The value, or an error if an exception is pending, which is still to be caught. A panic of a host function resumes
/// here.
///
/// # Safety
///
/// The value is of this context, and ours to free.
pub(super) unsafe fn owned<'js>(ctx: &Ctx<'js>, value: qjs::JSValue) -> rquickjs::Result<Value<'js>> {
    // SAFETY: guaranteed by the caller.
    let value = unsafe { Value::from_raw(ctx.clone(), value) };
    rquickjs::Result::from_js(ctx, value)?
}

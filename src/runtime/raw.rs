//! Raw calls of QuickJS and their results: a value, or a pending exception.
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

/// Runs the next job; `None` if no job waits. After an error the exception is still to be caught.
pub(super) fn execute_job(ctx: &Ctx<'_>) -> Option<rquickjs::Result<()>> {
    let mut context = std::ptr::null_mut();
    // SAFETY: the context is live and entered. The runtime has no other one, so it is the context of the job too.
    let status =
        unsafe { qjs::JS_ExecutePendingJob(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), &raw mut context) };
    match status {
        0 => None,
        1.. => Some(Ok(())),
        _ => Some(Err(rquickjs::Error::Exception)),
    }
}

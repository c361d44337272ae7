//! Raw calls of QuickJS: their result, which is a value or a pending exception, and a list of arguments of any length.
//!
//! One of the modules with `unsafe`: it takes ownership of values.
#![allow(unsafe_code)]

use std::ffi::c_int;

use rquickjs::{Ctx, FromJs, Function, IntoJs, Value, qjs};

use super::kept::{Kept, keep};

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

/// The arguments of a call. rquickjs would own a list of more than four while the function runs, and a turn may be abandoned
/// there.
pub(super) struct Arguments<'js> {
    ctx: Ctx<'js>,
    /// Values that are ours to free.
    list: Kept<Vec<qjs::JSValue>>,
}

impl<'js> Arguments<'js> {
    pub(super) fn new(ctx: &Ctx<'js>) -> Self {
        Self { ctx: ctx.clone(), list: keep(Vec::new()) }
    }

    /// Adds one at the end.
    pub(super) fn push(&mut self, argument: impl IntoJs<'js>) -> rquickjs::Result<()> {
        let argument = argument.into_js(&self.ctx)?;
        // SAFETY: the value is live, and the list gets a reference of its own.
        let argument = unsafe { qjs::JS_DupValue(self.ctx.as_raw().as_ptr(), argument.as_raw()) };
        self.list.push(argument);
        Ok(())
    }

    /// Calls a function with them.
    pub(super) fn call<R: FromJs<'js>>(&self, function: &Function<'js>) -> rquickjs::Result<R> {
        let (context, count) = (self.ctx.as_raw().as_ptr(), self.list.len() as c_int);
        // SAFETY: context, function and arguments are live and belong together, and the result is ours.
        let result = unsafe {
            let function = function.as_value().as_raw();
            let arguments = self.list.as_ptr().cast_mut();
            owned(&self.ctx, qjs::JS_Call(context, function, qjs::JS_UNDEFINED, count, arguments))
        };
        R::from_js(&self.ctx, result?)
    }
}

impl Drop for Arguments<'_> {
    fn drop(&mut self) {
        while let Some(argument) = self.list.pop() {
            // SAFETY: the reference is ours.
            unsafe { qjs::JS_FreeValue(self.ctx.as_raw().as_ptr(), argument) }
        }
    }
}

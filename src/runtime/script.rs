//! Code, compiled and then run: that of an eval, and the parts of the prelude, which are compiled once for all contexts.
//!
//! In two steps, because what the compiler refuses may be TypeScript, and must not be confused with a `SyntaxError` that
//! the code throws when it runs. Code without `await` runs as a plain script, whose value is there when it returns;
//! only code that may wait becomes an async function with a promise.
//!
//! One of the modules with `unsafe`: QuickJS has these two steps, rquickjs only both in one call.
#![allow(unsafe_code)]

use std::ffi::{CString, NulError};

use rquickjs::{Ctx, Value, qjs};

use super::raw;

/// Code for the engine, and how it is to be run.
pub(crate) struct Code<'a> {
    pub(crate) text: &'a str,
    /// Its name in stack traces.
    pub(crate) name: &'a str,
    /// Whether it is an async function, whose value comes as `{value}` in a promise.
    pub(crate) awaits: bool,
}

/// Code that was compiled in this context.
pub(crate) struct Script<'js>(Value<'js>);

/// Why code could not be compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    /// QuickJS takes text up to its first NUL.
    #[error("the code contains a NUL character")]
    Nul(#[from] NulError),
    /// QuickJS threw something; it is still to be caught.
    #[error(transparent)]
    Thrown(#[from] rquickjs::Error),
}

impl<'js> Script<'js> {
    /// Compiles, and runs nothing.
    pub(crate) fn compile(ctx: &Ctx<'js>, code: &Code<'_>) -> Result<Self, CompileError> {
        let (text, name) = (CString::new(code.text)?, CString::new(code.name)?);
        let mut flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
        if code.awaits {
            flags |= qjs::JS_EVAL_FLAG_ASYNC;
        }
        // SAFETY: the context is live and entered, both texts end with NUL and outlive the call, and the length is that
        // of the text before its NUL. The result is ours to free.
        let compiled = unsafe {
            let compiled = qjs::JS_Eval(
                ctx.as_raw().as_ptr(),
                text.as_ptr(),
                text.as_bytes().len() as _,
                name.as_ptr(),
                flags.cast_signed(),
            );
            raw::owned(ctx, compiled)
        };
        Ok(Self(compiled?))
    }

    /// What was compiled as bytes, for other contexts; without the positions of the source.
    pub(crate) fn to_bytecode(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Vec<u8>> {
        let context = ctx.as_raw().as_ptr();
        let flags = qjs::JS_WRITE_OBJ_BYTECODE | qjs::JS_WRITE_OBJ_STRIP_DEBUG;
        let mut length = 0;
        // SAFETY: the value is what `compile` got from this very context. The bytes are ours to free, and are copied before.
        unsafe {
            let bytes = qjs::JS_WriteObject(context, &raw mut length, self.0.as_raw(), flags.cast_signed());
            if bytes.is_null() {
                return Err(rquickjs::Error::Exception);
            }
            let bytecode = std::slice::from_raw_parts(bytes, length as usize).to_vec();
            qjs::js_free(context, bytes.cast());
            Ok(bytecode)
        }
    }

    /// Code that was compiled before, in whichever context.
    ///
    /// # Safety
    ///
    /// [`Self::to_bytecode`] returned these bytes in this very process: QuickJS trusts what it reads.
    pub(crate) unsafe fn from_bytecode(ctx: &Ctx<'js>, bytecode: &[u8]) -> rquickjs::Result<Self> {
        let flags = qjs::JS_READ_OBJ_BYTECODE.cast_signed();
        // SAFETY: the context is live and entered, and the caller guarantees the bytes. The result is ours to free.
        let compiled = unsafe {
            let context = ctx.as_raw().as_ptr();
            let read = qjs::JS_ReadObject(context, bytecode.as_ptr(), bytecode.len() as _, flags);
            raw::owned(ctx, read)
        };
        Ok(Self(compiled?))
    }

    /// Runs to the first `await` or to the end.
    pub(crate) fn run(self, ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
        let context = ctx.as_raw().as_ptr();
        // SAFETY: the value is what `compile` got from this very context. `JS_EvalFunction` frees the reference that it
        // is given, so it gets one of its own; the result is ours to free.
        unsafe {
            let compiled = qjs::JS_DupValue(context, self.0.as_raw());
            raw::owned(ctx, qjs::JS_EvalFunction(context, compiled))
        }
    }
}

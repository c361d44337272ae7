//! Two things that QuickJS must be told or asked directly: where the stack begins, and how much memory is in use.
//!
//! One of the modules with `unsafe`. QuickJS measures its stack by address from where the runtime was made; a turn
//! runs on another stack, so each entry says where that begins. rquickjs can count memory only from outside the context.
#![allow(unsafe_code)]

use rquickjs::{Ctx, qjs};

/// The stack begins here.
pub(crate) fn update_top(ctx: &Ctx<'_>) {
    // SAFETY: the context is live and entered; only the address of this frame is stored.
    unsafe { qjs::JS_UpdateStackTop(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) }
}

/// Bytes that the runtime has allocated. QuickJS takes a census for it, so this is not for every eval.
pub(crate) fn memory_used(ctx: &Ctx<'_>) -> i64 {
    let mut usage = std::mem::MaybeUninit::<qjs::JSMemoryUsage>::uninit();
    // SAFETY: the context is live; the call fills the whole struct.
    let usage = unsafe {
        qjs::JS_ComputeMemoryUsage(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.malloc_size
}

//! Where the stack begins. QuickJS measures its stack by address from where the runtime was made; a turn runs on
//! another stack, so each entry says where that begins.
//!
//! One of the modules with `unsafe`.
#![allow(unsafe_code)]

use rquickjs::{Ctx, qjs};

/// Sets the base of the stack to this frame.
pub(crate) fn update_top(ctx: &Ctx<'_>) {
    // SAFETY: the context is live and entered; only the address of this frame is stored.
    unsafe { qjs::JS_UpdateStackTop(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) }
}

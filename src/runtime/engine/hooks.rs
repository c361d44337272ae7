//! What QuickJS calls by itself: the poll for an interrupt, and the report of a rejected promise.
//!
//! A panic does not cross C: it is caught here, and the turn is stopped.
//!
//! One of the modules with `unsafe`: C calls these functions with a pointer to the guest.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::time::Instant;

use rquickjs::{Ctx, Value, qjs};

use super::super::guest::Guest;

/// QuickJS asks every so often whether to end the script. Outside a turn there is no time limit.
///
/// # Safety
///
/// The pointer is to a live guest: see `HeapRuntime::attach_hooks`.
pub(super) unsafe extern "C" fn interrupt(_: *mut qjs::JSRuntime, guest: *mut c_void) -> c_int {
    // SAFETY: guaranteed by the caller.
    let guest = unsafe { &*guest.cast::<Guest>() };
    let meter = &guest.meter;
    let is_over = catch_unwind(AssertUnwindSafe(|| meter.in_turn() && meter.is_over(Instant::now())));
    c_int::from(is_over.unwrap_or_else(|panic| {
        guest.stop_after_panic("the interrupt handler", &*panic);
        true
    }))
}

/// A promise was rejected without a handler, or got one after all.
///
/// # Safety
///
/// The pointer is to a live guest, as above, and the values are of the context.
pub(super) unsafe extern "C" fn track_rejection(
    context: *mut qjs::JSContext,
    promise: qjs::JSValue,
    reason: qjs::JSValue,
    is_handled: bool,
    guest: *mut c_void,
) {
    // SAFETY: guaranteed by the caller; the values are QuickJS's, so references of our own are taken.
    let (guest, ctx, promise, reason) = unsafe {
        let ctx = Ctx::from_raw(NonNull::new_unchecked(context));
        let value = |raw| Value::from_raw(ctx.clone(), qjs::JS_DupValue(context, raw));
        let (promise, reason) = (value(promise), value(reason));
        (&*guest.cast::<Guest>(), ctx, promise, reason)
    };
    let track = AssertUnwindSafe(|| guest.track_rejection(&ctx, promise, reason, is_handled));
    if let Err(panic) = catch_unwind(track) {
        guest.stop_after_panic("the rejection tracker", &*panic);
    }
}

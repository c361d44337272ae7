//! How a script's call reaches a host function: one entry for C, and the arguments by their types.
//!
//! A host function is an object whose class has [`call_function`] as its call and whose opaque pointer is a number, the
//! index in [`HOST_FUNCTIONS`]. The state is found through the context's opaque pointer. Unlike a function that QuickJS
//! makes for C, such an object has no frame on the script's stack: it is in no stack trace.
//!
//! One of the modules with `unsafe`: C calls the entry.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::slice;

use rquickjs::{Ctx, Error, Exception, FromJs, Function, IntoJs, Object, Result, Value, qjs};

use super::super::guest::Guest;
use super::super::raw;
use super::super::value;
use super::HOST_FUNCTIONS;

/// A function that the prelude can call.
pub(crate) struct HostFunction {
    /// The part of the prelude that it is for.
    pub(super) part: &'static str,
    pub(crate) name: &'static str,
    pub(super) run: for<'a, 'js> fn(&Call<'a, 'js>) -> Result<Value<'js>>,
}

/// A call of a host function.
pub(crate) struct Call<'a, 'js> {
    ctx: Ctx<'js>,
    guest: &'a Guest,
    /// The class of the function that is called, which is that of all host functions.
    class: qjs::JSClassID,
    this: qjs::JSValue,
    arguments: &'a [qjs::JSValue],
}

impl<'js> Call<'_, 'js> {
    /// Runs a function that needs nothing of the session.
    pub(super) fn run<A: FromArguments<'js>, R: IntoJs<'js>>(
        &self,
        function: impl FnOnce(&Ctx<'js>, A) -> R,
    ) -> Result<Value<'js>> {
        function(&self.ctx, A::from_arguments(self)?).into_js(&self.ctx)
    }

    /// Runs a method of the guest.
    pub(super) fn run_in<A: FromArguments<'js>, R: IntoJs<'js>>(
        &self,
        function: impl FnOnce(&Guest, &Ctx<'js>, A) -> R,
    ) -> Result<Value<'js>> {
        function(self.guest, &self.ctx, A::from_arguments(self)?).into_js(&self.ctx)
    }

    pub(crate) fn ctx(&self) -> &Ctx<'js> {
        &self.ctx
    }

    pub(crate) fn class(&self) -> qjs::JSClassID {
        self.class
    }

    /// The object whose method is called.
    pub(crate) fn this<T: FromJs<'js>>(&self) -> Result<T> {
        self.convert(self.this)
    }

    /// An argument; one that is missing is undefined.
    pub(crate) fn argument<T: FromJs<'js>>(&self, index: usize) -> Result<T> {
        self.convert(self.arguments.get(index).copied().unwrap_or(qjs::JS_UNDEFINED))
    }

    fn convert<T: FromJs<'js>>(&self, raw: qjs::JSValue) -> Result<T> {
        // SAFETY: the value is an argument of this call, so it is live; a reference of our own is taken.
        let value =
            unsafe { Value::from_raw(self.ctx.clone(), qjs::JS_DupValue(self.ctx.as_raw().as_ptr(), raw)) };
        T::from_js(&self.ctx, value)
    }
}

/// The arguments of a host function, as a tuple.
pub(super) trait FromArguments<'js>: Sized {
    fn from_arguments(call: &Call<'_, 'js>) -> Result<Self>;
}

impl<'js> FromArguments<'js> for () {
    fn from_arguments(_: &Call<'_, 'js>) -> Result<Self> {
        Ok(())
    }
}

impl<'js, A: FromJs<'js>> FromArguments<'js> for (A,) {
    fn from_arguments(call: &Call<'_, 'js>) -> Result<Self> {
        Ok((call.argument(0)?,))
    }
}

impl<'js, A: FromJs<'js>, B: FromJs<'js>> FromArguments<'js> for (A, B) {
    fn from_arguments(call: &Call<'_, 'js>) -> Result<Self> {
        Ok((call.argument(0)?, call.argument(1)?))
    }
}

impl<'js, A: FromJs<'js>, B: FromJs<'js>, C: FromJs<'js>> FromArguments<'js> for (A, B, C) {
    fn from_arguments(call: &Call<'_, 'js>) -> Result<Self> {
        Ok((call.argument(0)?, call.argument(1)?, call.argument(2)?))
    }
}

/// Makes the host functions of a part of the prelude.
pub(crate) fn install(host: &Object<'_>, class: qjs::JSClassID, part: &str) -> Result<()> {
    let ctx = host.ctx();
    let prototype = Function::prototype(ctx.clone());
    for (number, function) in HOST_FUNCTIONS.iter().enumerate().filter(|(_, function)| function.part == part)
    {
        // SAFETY: context and prototype are live and belong together, and the object that is made is ours. Its opaque
        // pointer is a number, which only `call_function` reads.
        let object = unsafe {
            let context = ctx.as_raw().as_ptr();
            let object = qjs::JS_NewObjectProtoClass(context, prototype.as_value().as_raw(), class);
            let object = raw::owned(ctx, object)?;
            qjs::JS_SetOpaque(object.as_raw(), std::ptr::without_provenance_mut(number));
            object
        };
        value::define_field(host, function.name, &object)?;
    }
    Ok(())
}

/// The entry of all host functions.
///
/// # Safety
///
/// QuickJS calls it, for an object that `install` made, in a context with a guest.
pub(crate) unsafe extern "C" fn call_function(
    context: *mut qjs::JSContext,
    function: qjs::JSValue,
    this: qjs::JSValue,
    count: c_int,
    arguments: *mut qjs::JSValue,
    _flags: c_int,
) -> qjs::JSValue {
    let mut class = qjs::JS_INVALID_CLASS_ID;
    // SAFETY: the context is live and has a guest, which outlives it; there are that many arguments, and none if the
    // pointer is null.
    let (number, call) = unsafe {
        let number = qjs::JS_GetAnyOpaque(function, &raw mut class).addr();
        let arguments = match usize::try_from(count) {
            Ok(count @ 1..) => slice::from_raw_parts(arguments, count),
            Ok(0) | Err(_) => &[],
        };
        let guest = &*qjs::JS_GetContextOpaque(context).cast::<Guest>();
        let ctx = Ctx::from_raw(NonNull::new_unchecked(context));
        (number, Call { ctx, guest, class, this, arguments })
    };
    let run = || match HOST_FUNCTIONS.get(number) {
        Some(function) => (function.run)(&call),
        None => Err(Error::Unknown),
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        // SAFETY: the value is live; the reference that is returned is one of its own.
        Ok(Ok(value)) => unsafe { qjs::JS_DupValue(context, value.as_raw()) },
        Ok(Err(error)) => {
            throw(&call.ctx, &error);
            qjs::JS_EXCEPTION
        }
        Err(panic) => {
            let name = HOST_FUNCTIONS.get(number).map_or("unknown", |function| function.name);
            call.guest.stop_after_panic(name, &*panic);
            throw_uncatchable(&call.ctx);
            qjs::JS_EXCEPTION
        }
    }
}

/// Makes an error the pending exception, unless it is that already.
fn throw(ctx: &Ctx<'_>, error: &Error) {
    match error {
        Error::Exception => {}
        Error::Allocation => {
            // SAFETY: the context is live and entered.
            unsafe { qjs::JS_ThrowOutOfMemory(ctx.as_raw().as_ptr()) };
        }
        Error::InvalidString(_) | Error::Utf8(_) | Error::FromJs { .. } | Error::IntoJs { .. } => {
            Exception::throw_type(ctx, &error.to_string());
        }
        _ => {
            Exception::throw_internal(ctx, &error.to_string());
        }
    }
}

/// Ends the script: no `catch` of its own sees this error.
fn throw_uncatchable(ctx: &Ctx<'_>) {
    Exception::throw_internal(ctx, "internal error");
    let error = ctx.catch();
    // SAFETY: value and context are live and belong together; what is not an error is left alone.
    unsafe { qjs::JS_SetUncatchableError(ctx.as_raw().as_ptr(), error.as_raw()) };
    ctx.throw(error);
}

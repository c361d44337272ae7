//! A QuickJS runtime and its context in a heap of their own.
//!
//! A heap that holds nothing but QuickJS's own data can be written out and continued elsewhere. So no object and no closure
//! of Rust's is ever in it: host functions are numbers (`super::super::host`), and the classes in which rquickjs would put
//! such objects are registered here without any behaviour. What points out of the heap beside code and constants of this
//! program is set in this file, by [`HeapRuntime::attach_hooks`] and [`HeapRuntime::enter`], and is set again when a heap is
//! continued: the opaque pointers, the hooks and the bounds of the stack.
//!
//! rquickjs works on top, through `Ctx::from_raw`. It expects a structure of its own behind the runtime's opaque pointer,
//! and only a runtime of its own has one: a donor, of which each thread has one. All runtimes of a thread can share it: it
//! has the numbers of the classes, which are the same in each, and a place for panics of closures, which do not occur here.
//!
//! One of the modules with `unsafe`: it owns the runtime by its address.
#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::rc::Rc;

use rquickjs::{Context, Ctx, Error, Runtime, qjs};
use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::heap::{Arena, HeapMemory};
use super::super::host;
use super::super::stack;
use super::hooks;

thread_local! {
    static DONOR: OnceCell<Donor> = const { OnceCell::new() };
}

/// A runtime of rquickjs that lends its opaque pointer, and does nothing else.
#[derive(Clone)]
struct Donor {
    opaque: *mut c_void,
    /// Keeps the structure behind the pointer alive.
    _runtime: Runtime,
}

impl Donor {
    /// The donor of this thread.
    fn current() -> rquickjs::Result<Self> {
        DONOR.with(|donor| {
            if let Some(donor) = donor.get() {
                return Ok(donor.clone());
            }
            let runtime = Runtime::new()?;
            // SAFETY: runtime and context are live.
            let opaque = Context::base(&runtime)?
                .with(|ctx| unsafe { qjs::JS_GetRuntimeOpaque(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) });
            Ok(donor.get_or_init(|| Self { opaque, _runtime: runtime }).clone())
        })
    }
}

/// Where in its heap a runtime is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuntimeData {
    runtime: usize,
    context: usize,
    host_class: u32,
}

/// A runtime with one context.
///
/// Where its memory goes as a whole, nothing in it is freed before: QuickJS would visit every object for that, and not
/// survive a leak of its own. Elsewhere it is freed when dropped, and its memory after it.
pub(crate) struct HeapRuntime {
    runtime: NonNull<qjs::JSRuntime>,
    context: NonNull<qjs::JSContext>,
    /// The class of host functions.
    host_class: qjs::JSClassID,
    /// What the hooks point to.
    guest: OnceCell<Rc<Guest>>,
    _donor: Donor,
    _memory: HeapMemory,
}

impl HeapRuntime {
    /// A fresh runtime with a context, without hooks.
    pub(crate) fn new(memory: HeapMemory) -> rquickjs::Result<Self> {
        let donor = Donor::current()?;
        // SAFETY: the functions and what they point to outlive the runtime. Until it is owned, it is freed here
        // where that is necessary.
        unsafe {
            let runtime = qjs::JS_NewRuntime2(&memory.functions(), memory.opaque());
            let runtime = NonNull::new(runtime).ok_or(Error::Allocation)?;
            let context = register_classes(runtime).and_then(|host_class| {
                let context = NonNull::new(qjs::JS_NewContext(runtime.as_ptr())).ok_or(Error::Allocation)?;
                Ok((context, host_class))
            });
            match context {
                Ok((context, host_class)) => Ok(Self::own(runtime, context, host_class, donor, memory)),
                Err(error) => {
                    if !Arena::GOES_WHOLE {
                        qjs::JS_FreeRuntime(runtime.as_ptr());
                    }
                    Err(error)
                }
            }
        }
    }

    /// The runtime of a heap that is continued.
    ///
    /// # Safety
    ///
    /// [`Self::data`] returned this data in this very program, between turns, and the heap has the contents that it had
    /// then, at the same addresses. No other runtime owns it.
    pub(crate) unsafe fn from_restored(data: RuntimeData, memory: HeapMemory) -> rquickjs::Result<Self> {
        let donor = Donor::current()?;
        let runtime = NonNull::new(data.runtime as *mut qjs::JSRuntime).ok_or(Error::Unknown)?;
        let context = NonNull::new(data.context as *mut qjs::JSContext).ok_or(Error::Unknown)?;
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { Self::own(runtime, context, data.host_class, donor, memory) })
    }

    /// # Safety
    ///
    /// Runtime and context are live, belong together, and are ours to free.
    unsafe fn own(
        runtime: NonNull<qjs::JSRuntime>,
        context: NonNull<qjs::JSContext>,
        host_class: qjs::JSClassID,
        donor: Donor,
        memory: HeapMemory,
    ) -> Self {
        // SAFETY: the runtime is live, and what it points to is kept alive beside it.
        unsafe { qjs::JS_SetRuntimeOpaque(runtime.as_ptr(), donor.opaque) };
        Self { runtime, context, host_class, guest: OnceCell::new(), _donor: donor, _memory: memory }
    }

    /// Sets what the runtime calls and what that points to, for a fresh runtime or one that is continued; only once.
    pub(crate) fn attach_hooks(&self, guest: &Rc<Guest>) {
        let (runtime, context) = (self.runtime.as_ptr(), self.context.as_ptr());
        let guest = self.guest.get_or_init(|| Rc::clone(guest));
        let opaque = Rc::as_ptr(guest).cast_mut().cast();
        // SAFETY: runtime and context are live. The guest lives as long as they do, and the hooks only read it.
        unsafe {
            qjs::JS_SetContextOpaque(context, opaque);
            qjs::JS_SetInterruptHandler(runtime, Some(hooks::interrupt), opaque);
            qjs::JS_SetHostPromiseRejectionTracker(runtime, Some(hooks::track_rejection), opaque);
            qjs::JS_SetMaxStackSize(runtime, guest.limits.stack_bytes_max as qjs::size_t);
        }
    }

    /// Enters the context from the stack that we are on.
    pub(crate) fn enter<R>(&self, work: impl FnOnce(&Ctx<'_>) -> R) -> R {
        // SAFETY: the context is live for as long as `self`, and no value of it leaves the closure, whose argument may
        // have any lifetime. A runtime stays on its thread.
        let ctx = unsafe { Ctx::from_raw(self.context) };
        stack::update_top(&ctx);
        work(&ctx)
    }

    /// Whether jobs are left over.
    pub(crate) fn is_job_pending(&self) -> bool {
        // SAFETY: the runtime is live.
        unsafe { qjs::JS_IsJobPending(self.runtime.as_ptr()) }
    }

    pub(crate) fn context(&self) -> NonNull<qjs::JSContext> {
        self.context
    }

    pub(crate) fn host_class(&self) -> qjs::JSClassID {
        self.host_class
    }

    /// The addresses of the runtime and the context themselves.
    #[cfg(test)]
    pub(crate) fn blocks(&self) -> [std::ops::Range<usize>; 2] {
        let (runtime, context) = (self.runtime.as_ptr(), self.context.as_ptr());
        // SAFETY: the runtime is a block of the heap, and the context one of the runtime.
        let (runtime_bytes, context_bytes) = unsafe {
            (Arena::usable_size(runtime.cast()), qjs::js_malloc_usable_size(context, context.cast()) as usize)
        };
        [runtime.addr()..runtime.addr() + runtime_bytes, context.addr()..context.addr() + context_bytes]
    }

    /// What [`Self::from_restored`] needs to know of it.
    pub(crate) fn data(&self) -> RuntimeData {
        RuntimeData {
            runtime: self.runtime.as_ptr().addr(),
            context: self.context.as_ptr().addr(),
            host_class: self.host_class,
        }
    }
}

impl Drop for HeapRuntime {
    fn drop(&mut self) {
        if Arena::GOES_WHOLE {
            return;
        }
        // SAFETY: both are ours, and no value of them is in use: `enter` lets none out, and roots are freed before.
        unsafe {
            qjs::JS_FreeContext(self.context.as_ptr());
            qjs::JS_FreeRuntime(self.runtime.as_ptr());
        }
    }
}

/// Takes the three numbers that rquickjs uses for its classes, and one for host functions; returns that.
///
/// # Safety
///
/// The runtime is live and has no context and no other class yet.
unsafe fn register_classes(runtime: NonNull<qjs::JSRuntime>) -> rquickjs::Result<qjs::JSClassID> {
    let mut last = Err(Error::Unknown);
    let classes: [(&CStr, qjs::JSClassCall); 4] = [
        (c"Unused", None),
        (c"Unused", None),
        (c"Unused", None),
        (c"HostFunction", Some(host::call_function)),
    ];
    for (name, call) in classes {
        let mut class = qjs::JS_INVALID_CLASS_ID;
        let definition = qjs::JSClassDef {
            class_name: name.as_ptr(),
            finalizer: None,
            gc_mark: None,
            call,
            exotic: std::ptr::null_mut(),
        };
        // SAFETY: the runtime is live; it copies the definition and the name.
        let status = unsafe {
            qjs::JS_NewClassID(runtime.as_ptr(), &raw mut class);
            qjs::JS_NewClass(runtime.as_ptr(), class, &raw const definition)
        };
        if status != 0 {
            return Err(Error::Allocation);
        }
        last = Ok(class);
    }
    last
}

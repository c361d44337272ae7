//! JavaScript on stackful coroutines: how a shard preempts a script.
//!
//! A turn of JavaScript runs on a coroutine with a stack of its own. QuickJS polls its interrupt handler every ten
//! thousand back-edges and calls; when the slice is used up the handler calls [`suspend`], control returns to the caller of
//! [`Turn::resume`], and the shard serves its other sessions first. No thread is involved.
//!
//! One of the modules with `unsafe`: the pointer to the running coroutine's yielder.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::io;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Stacks kept for the next turn, for each shard.
/// A turn that is not suspended returns its stack within its slice, so a few serve all sessions.
const STACKS_POOLED_MAX: usize = 16;

thread_local! {
    static RUNNING: Cell<Option<*const Yielder<(), ()>>> = const { Cell::new(None) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    static SUSPENDED: Cell<usize> = const { Cell::new(0) };
}

/// How many turns of this thread are suspended.
pub(crate) fn suspended() -> usize {
    SUSPENDED.get()
}

/// One run of JavaScript, from an empty stack to an empty stack, that may be suspended in between.
pub(crate) struct Turn<R: 'static> {
    coroutine: Option<Coroutine<(), (), R, DefaultStack>>,
}

impl<R: 'static> Turn<R> {
    /// Prepares `work` to run on a stack of at least `stack_bytes`.
    pub(crate) fn new(stack_bytes: usize, work: impl FnOnce() -> R + 'static) -> io::Result<Self> {
        let stack = take_stack(stack_bytes)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder, ()| {
            RUNNING.set(Some(std::ptr::from_ref(yielder)));
            let result = work();
            RUNNING.set(None);
            result
        });
        Ok(Self { coroutine: Some(coroutine) })
    }

    /// Runs until the work suspends itself (`None`) or ends.
    /// A panic of the work unwinds out of here, its stack being lost.
    pub(crate) fn resume(&mut self) -> Option<R> {
        let coroutine = self.coroutine.as_mut()?;
        match coroutine.resume(()) {
            CoroutineResult::Yield(()) => None,
            CoroutineResult::Return(result) => {
                if let Some(done) = self.coroutine.take() {
                    return_stack(done.into_stack());
                }
                Some(result)
            }
        }
    }
}

impl<R: 'static> Drop for Turn<R> {
    /// A suspended turn has C frames on its stack, which must not be unwound: it is leaked instead.
    /// The session ends its turns before it goes, so this happens only when a shard is torn down.
    fn drop(&mut self) {
        if let Some(coroutine) = self.coroutine.take()
            && coroutine.started()
            && !coroutine.done()
        {
            tracing::error!("a suspended turn was dropped; its stack is leaked");
            std::mem::forget(coroutine);
        }
    }
}

/// Suspends the running turn until it is resumed. Outside a turn it does nothing.
pub(crate) fn suspend() {
    let Some(yielder) = RUNNING.get() else { return };
    RUNNING.set(None);
    SUSPENDED.set(SUSPENDED.get() + 1);
    // SAFETY: `RUNNING` is set when a coroutine starts or goes on and cleared when it suspends or ends, on this
    // thread. So the pointer is that of the coroutine on whose stack we are, and its yielder lives on that stack.
    unsafe { &*yielder }.suspend(());
    SUSPENDED.set(SUSPENDED.get() - 1);
    RUNNING.set(Some(yielder));
}

fn take_stack(bytes: usize) -> io::Result<DefaultStack> {
    let pooled = STACKS.with_borrow_mut(Vec::pop);
    match pooled.filter(|stack| stack.base().get() - stack.limit().get() >= bytes) {
        Some(stack) => Ok(stack),
        None => DefaultStack::new(bytes),
    }
}

fn return_stack(stack: DefaultStack) {
    STACKS.with_borrow_mut(|stacks| {
        if stacks.len() < STACKS_POOLED_MAX {
            stacks.push(stack);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_turns_interleave_on_one_thread() {
        let mut first = Turn::new(64 << 10, || {
            suspend();
            suspend();
            1
        })
        .unwrap();
        let mut second = Turn::new(64 << 10, || {
            suspend();
            2
        })
        .unwrap();
        assert_eq!((first.resume(), second.resume()), (None, None));
        assert_eq!(suspended(), 2);
        assert_eq!((first.resume(), second.resume()), (None, Some(2)));
        assert_eq!(first.resume(), Some(1));
        assert_eq!(suspended(), 0);
    }

    #[test]
    fn suspending_outside_a_turn_does_nothing() {
        suspend();
    }

    #[test]
    fn panic_of_a_turn_does_not_affect_the_next() {
        let mut turn = Turn::new(64 << 10, || panic!("inside")).unwrap();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| turn.resume()));
        assert!(caught.is_err());
        RUNNING.set(None);
        assert_eq!(Turn::new(64 << 10, || 3).unwrap().resume(), Some(3));
    }
}

//! JavaScript on stackful coroutines: how a shard preempts a script.
//!
//! A turn of JavaScript runs on a coroutine with a stack of its own. QuickJS polls its interrupt handler every ten
//! thousand back-edges and calls; when the slice is used up the handler calls [`suspend`], control returns to the caller of
//! [`Turn::resume`], and the shard serves its other sessions first. No thread is involved.
//!
//! A turn that cannot go on is [abandoned](abandon): its stack is taken away as it is, with the frames of C on it, and what
//! its Rust frames own is dropped by way of [`kept`](super::kept).
//!
//! One of the modules with `unsafe`: the pointer to the running coroutine, and the end of one that is abandoned.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::io;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::kept::{KeptEntries, KeptList};

/// Stacks kept for the next turn, for each shard.
/// A turn that is not suspended returns its stack within its slice, so a few serve all sessions.
const STACKS_POOLED_MAX: usize = 16;

thread_local! {
    static RUNNING: Cell<Option<*const Running>> = const { Cell::new(None) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    static SUSPENDED: Cell<usize> = const { Cell::new(0) };
}

/// How many turns of this thread are suspended.
pub(crate) fn suspended() -> usize {
    SUSPENDED.get()
}

/// How many stacks of this thread wait for a turn.
#[cfg(test)]
pub(crate) fn pooled_stacks() -> usize {
    STACKS.with_borrow(Vec::len)
}

/// A turn on its stack.
struct Running {
    yielder: *const Yielder<(), Interruption>,
    kept: KeptList,
}

/// Why a coroutine returns before it is over.
#[derive(Debug)]
enum Interruption {
    Suspended,
    /// It is not to be resumed, and this is to be dropped.
    Abandoned(KeptEntries),
}

/// What a turn did when it was resumed.
#[derive(Debug)]
pub(crate) enum Slice<R> {
    /// It suspended itself.
    Suspended,
    /// It is over.
    Done(R),
    /// It gave up in the middle: its context cannot be used any more.
    Abandoned,
}

/// One run of JavaScript, from an empty stack to an empty stack, that may be suspended in between.
pub(crate) struct Turn<R: 'static> {
    coroutine: Option<Coroutine<(), Interruption, R, DefaultStack>>,
}

impl<R: 'static> Turn<R> {
    /// Prepares `work` to run on a stack of at least `stack_bytes`. While it calls what may [`abandon`] it, it owns nothing
    /// but what it keeps (see [`kept`](super::kept)).
    pub(crate) fn new(stack_bytes: usize, work: impl FnOnce() -> R + 'static) -> io::Result<Self> {
        let stack = take_stack(stack_bytes)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder, ()| {
            let running = Running { yielder, kept: KeptList::new() };
            RUNNING.set(Some(&raw const running));
            let result = work();
            RUNNING.set(None);
            result
        });
        Ok(Self { coroutine: Some(coroutine) })
    }

    /// Runs until the work suspends itself, ends or is abandoned; what is over already counts as abandoned.
    /// A panic of the work unwinds out of here, its stack being lost.
    pub(crate) fn resume(&mut self) -> Slice<R> {
        let Some(coroutine) = self.coroutine.as_mut() else { return Slice::Abandoned };
        match coroutine.resume(()) {
            CoroutineResult::Yield(Interruption::Suspended) => Slice::Suspended,
            CoroutineResult::Yield(Interruption::Abandoned(kept)) => {
                if let Some(mut abandoned) = self.coroutine.take() {
                    // SAFETY: what its frames own is kept, see `new`, and is dropped here; the rest are values of a
                    // script whose heap goes as a whole. The stack is not run again.
                    unsafe {
                        abandoned.force_reset();
                        kept.drop_all();
                    }
                    return_stack(abandoned.into_stack());
                }
                Slice::Abandoned
            }
            CoroutineResult::Return(result) => {
                if let Some(done) = self.coroutine.take() {
                    return_stack(done.into_stack());
                }
                Slice::Done(result)
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
    let Some(running) = RUNNING.get() else { return };
    RUNNING.set(None);
    SUSPENDED.set(SUSPENDED.get() + 1);
    // SAFETY: `RUNNING` is set when a coroutine starts or goes on and cleared when it suspends or ends, on this
    // thread. So the pointer is that of the coroutine on whose stack we are, where it lies with its yielder.
    unsafe { &*(*running).yielder }.suspend(Interruption::Suspended);
    SUSPENDED.set(SUSPENDED.get() - 1);
    RUNNING.set(Some(running));
}

/// Whether the running code can be [abandoned](abandon).
pub(crate) fn is_in_turn() -> bool {
    RUNNING.get().is_some()
}

/// Ends the running turn for good, from wherever it is.
///
/// # Panics
///
/// Outside a turn.
pub(crate) fn abandon() -> ! {
    let running = RUNNING.take().expect("only a turn is abandoned");
    // SAFETY: as for `suspend`.
    unsafe {
        let kept = (*running).kept.take();
        (*(*running).yielder).suspend(Interruption::Abandoned(kept));
    }
    unreachable!("an abandoned turn is not resumed")
}

/// Runs `work` with the list of what the running turn keeps, if we are in one.
pub(super) fn with_kept(work: impl FnOnce(&KeptList)) {
    if let Some(running) = RUNNING.get() {
        // SAFETY: as for `suspend`.
        work(unsafe { &(*running).kept });
    }
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
        assert!(matches!((first.resume(), second.resume()), (Slice::Suspended, Slice::Suspended)));
        assert_eq!(suspended(), 2);
        assert!(matches!((first.resume(), second.resume()), (Slice::Suspended, Slice::Done(2))));
        assert!(matches!(first.resume(), Slice::Done(1)));
        assert_eq!(suspended(), 0);
    }

    #[test]
    fn suspending_outside_a_turn_does_nothing() {
        suspend();
    }

    #[test]
    fn stack_of_an_abandoned_turn_is_used_again() {
        drop(STACKS.take());
        let mut turn: Turn<()> = Turn::new(64 << 10, || abandon()).unwrap();
        assert!(matches!(turn.resume(), Slice::Abandoned));
        assert_eq!(STACKS.with_borrow(Vec::len), 1);
        assert!(!is_in_turn());
        assert!(matches!(Turn::new(64 << 10, is_in_turn).unwrap().resume(), Slice::Done(true)));
        assert_eq!(STACKS.with_borrow(Vec::len), 1);
    }

    #[test]
    fn panic_of_a_turn_does_not_affect_the_next() {
        let mut turn = Turn::new(64 << 10, || panic!("inside")).unwrap();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| turn.resume()));
        assert!(caught.is_err());
        RUNNING.set(None);
        assert!(matches!(Turn::new(64 << 10, || 3).unwrap().resume(), Slice::Done(3)));
    }
}

//! How soon QuickJS polls its interrupt handler next.
//!
//! QuickJS counts back-edges and calls and polls at every ten thousandth. In a tight loop that is every forty
//! microseconds; in a loop around an operation that takes a millisecond, such as the comparison of two texts of ten
//! megabytes, it is every ten seconds. So the counter is lowered from outside: by the session, when a slice took too
//! long, and by the watchdog, when a shard has been in the same slice for a while. What remains is a single operation.
//!
//! The counter is a private field of the context. Its place is found once, by counting: it is the only number in the
//! context that goes down by one at every back-edge. If none or several do, the counter is left alone.
//!
//! One of the modules with `unsafe`: it reads and writes that field.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rquickjs::{Ctx, qjs};

use super::engine::HeapRuntime;
use super::heap::presence::Presence;
use super::heap::{Arena, HeapMemory, HeapUsage};
use super::meter::{Meter, SLICE};
use super::total::{MemoryTotal, Share};

/// What QuickJS counts down from.
const POLL_EVERY: i32 = 10_000;

/// A slice that took longer than this makes the next poll come sooner.
const SLICE_LONG: Duration = SLICE.saturating_mul(10);

/// Heap of the context in which the counter is looked for.
const PROBE_BYTES_MAX: usize = 16 << 20;

/// The counter of one context.
pub(crate) struct PollCounter {
    counter: Mutex<Option<Counter>>,
    presence: Arc<Presence>,
}

#[derive(Clone, Copy)]
struct Counter(NonNull<AtomicI32>);

// SAFETY: the field is only accessed under the lock of `PollCounter`, which is emptied before the context is freed.
// QuickJS itself writes it without a lock: at worst a value that is stored here is lost, and stored again later.
unsafe impl Send for Counter {}

impl PollCounter {
    /// No counter: that of a context that is not in memory.
    pub(crate) fn detached() -> Self {
        Self { counter: Mutex::new(None), presence: Arc::default() }
    }

    /// The counter of this context, until [`Self::detach`] is called. It is left alone while the heap is away.
    pub(crate) fn new(ctx: &Ctx<'_>, presence: &Arc<Presence>) -> Self {
        let counter = offset().and_then(|offset| {
            // SAFETY: the context is at least that large, see `find`, and aligned for its fields.
            let field = unsafe { ctx.as_raw().as_ptr().byte_add(offset) };
            NonNull::new(field.cast()).map(Counter)
        });
        Self { counter: Mutex::new(counter), presence: Arc::clone(presence) }
    }

    /// Makes QuickJS poll after at most `count` more back-edges and calls.
    pub(crate) fn poll_within(&self, count: i32) {
        if let Some(Counter(field)) = *self.counter.lock() {
            // SAFETY: the context lives as long as the counter is not detached, and both locks are held.
            self.presence.with_heap(|| unsafe { field.as_ref() }.store(count, Ordering::Relaxed));
        }
    }

    /// Must be called before the context is freed.
    pub(crate) fn detach(&self) {
        self.counter.lock().take();
    }
}

/// How many back-edges and calls a slice should take, learned from those before it.
#[derive(Debug)]
pub(crate) struct Pace(i32);

impl Pace {
    pub(crate) fn new() -> Self {
        Self(POLL_EVERY)
    }

    /// Learns from a slice that took that long. Returns after how many the next poll is to come, if not as usual.
    pub(crate) fn adapt(&mut self, took: Duration) -> Option<i32> {
        if took > SLICE_LONG {
            let shorter = f64::from(self.0) * SLICE.as_secs_f64() / took.as_secs_f64();
            #[allow(clippy::cast_possible_truncation)]
            let shorter = shorter as i32;
            self.0 = shorter.max(1);
        } else {
            self.0 = self.0.saturating_mul(2).min(POLL_EVERY);
        }
        (self.0 < POLL_EVERY).then_some(self.0)
    }
}

/// Where in a context the counter is.
fn offset() -> Option<usize> {
    static OFFSET: OnceLock<Option<usize>> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let found = find();
        if found.is_none() {
            tracing::warn!("the poll counter of QuickJS was not found; slow loops are noticed late");
        }
        found
    })
}

fn find() -> Option<usize> {
    let share = Share::replace(&MemoryTotal::new(usize::MAX));
    let used = Rc::new(HeapUsage::new(PROBE_BYTES_MAX, share, Arena::new().ok()?));
    let runtime = HeapRuntime::new(HeapMemory::new(&Rc::new(Meter::new()), &used)).ok()?;
    runtime.enter(|ctx| {
        // The first poll comes with the first call, and sets the counter.
        ctx.eval::<(), _>("0;").ok()?;
        let start = fields(ctx);
        ctx.eval::<(), _>("for (let i = 0; i < 1000; i++);").ok()?;
        let middle = fields(ctx);
        ctx.eval::<(), _>("for (let i = 0; i < 3000; i++);").ok()?;
        let end = fields(ctx);
        let is_counter = |index: &usize| {
            let (start, middle, end) = (start[*index], middle[*index], end[*index]);
            let (first, second) = (start.wrapping_sub(middle), middle.wrapping_sub(end));
            // A loop has one or two back-edges in its bytecode; the call counts as well.
            let is_steady = [1, 2].iter().any(|edges| {
                (1_000 * edges..1_000 * edges + 10).contains(&first) && second - first == 2_000 * edges
            });
            is_steady && end > 0 && start <= POLL_EVERY
        };
        let mut found = (0..start.len()).filter(is_counter);
        let index = found.next()?;
        found.next().is_none().then_some(index * size_of::<i32>())
    })
}

/// The memory of a context, as numbers.
fn fields(ctx: &Ctx<'_>) -> Vec<i32> {
    let context = ctx.as_raw().as_ptr();
    // SAFETY: the context is a block of its runtime, which says how long it is; it was allocated zeroed, and no code of
    // QuickJS runs meanwhile.
    unsafe {
        let bytes = qjs::js_malloc_usable_size(context, context.cast());
        let count = usize::try_from(bytes).unwrap_or(0) / size_of::<i32>();
        std::slice::from_raw_parts(context.cast(), count).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use rquickjs::{Context, Runtime};

    use super::*;

    #[test]
    fn counter_is_found_in_this_build_of_quickjs() {
        assert!(find().is_some());
    }

    #[test]
    fn lowered_counter_brings_the_next_poll_forward() {
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        let polls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        runtime.set_interrupt_handler(Some(Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        })));
        context.with(|ctx| {
            let polls_of = |code: &str| {
                ctx.eval::<(), _>(code).unwrap();
                polls.swap(0, Ordering::Relaxed)
            };
            let counter = PollCounter::new(&ctx, &Arc::default());
            polls_of("0;");
            assert_eq!(polls_of("for (let i = 0; i < 100; i++);"), 0);
            counter.poll_within(50);
            assert_eq!(polls_of("for (let i = 0; i < 100; i++);"), 1);
            counter.detach();
            counter.poll_within(1);
            assert_eq!(polls_of("for (let i = 0; i < 100; i++);"), 0);
        });
    }

    #[test]
    fn slow_slices_are_shortened_and_quick_ones_lengthened_again() {
        let mut pace = Pace::new();
        assert_eq!(pace.adapt(SLICE * 2), None);
        assert_eq!(pace.adapt(SLICE * 1_000), Some(10));
        assert_eq!(pace.adapt(SLICE * 1_000), Some(1));
        assert_eq!(pace.adapt(SLICE), Some(2));
        assert!((0..20).any(|_| pace.adapt(SLICE).is_none()));
    }
}

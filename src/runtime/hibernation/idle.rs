//! Which sessions of a shard are idle.
//!
//! A session marks since when it waits, which is one store, and the task of its shard looks at all marks a few times per
//! idle time. Sessions that are due are woken one after the other with a pause, so that a crowd that fell idle together
//! does not hold up the others while it is written out.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// How many times per idle time the marks are looked at: a session is hibernated at most a quarter late.
const LOOKS_PER_IDLE_TIME: u32 = 4;

/// Bounds of the time between two looks. A look at ten thousand marks takes some 20 us.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(5);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(5);

/// Pause between two sessions: the shard spends at most a fifth of its time on writing images.
const PAUSE: Duration = Duration::from_millis(2);

thread_local! {
    static MARKS: RefCell<Marks> = const { RefCell::new(Marks { marks: Vec::new(), is_looking: false }) };
}

struct Marks {
    marks: Vec<Weak<IdleMark>>,
    /// Whether the task runs.
    is_looking: bool,
}

/// Since when a session is idle.
#[derive(Debug, Default)]
pub(crate) struct IdleMark {
    since: Cell<Option<Instant>>,
    is_due: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl IdleMark {
    /// A mark of a session on this thread, which is looked at from now on.
    pub(crate) fn register(idle_max: Duration) -> Rc<Self> {
        let mark = Rc::new(Self::default());
        let starts = MARKS.with_borrow_mut(|marks| {
            marks.marks.push(Rc::downgrade(&mark));
            !std::mem::replace(&mut marks.is_looking, true)
        });
        if starts {
            tokio::task::spawn_local(look(idle_max));
        }
        mark
    }

    /// The session begins to wait, with its heap in memory.
    pub(crate) fn begin(&self, now: Instant) {
        self.since.set(Some(now));
        self.is_due.set(false);
    }

    /// It does not wait any more.
    pub(crate) fn end(&self) {
        self.since.set(None);
        self.is_due.set(false);
    }

    /// Waits until the session is due.
    pub(crate) async fn due(&self) {
        poll_fn(|context| {
            if self.is_due.get() {
                return Poll::Ready(());
            }
            let mut waker = self.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn is_idle_for(&self, idle: Duration, now: Instant) -> bool {
        self.since.get().is_some_and(|since| now.saturating_duration_since(since) >= idle)
    }

    fn wake(&self) {
        self.is_due.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// Looks until no session is left on the thread.
async fn look(idle_max: Duration) {
    let every = (idle_max / LOOKS_PER_IDLE_TIME).clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX);
    loop {
        tokio::time::sleep(every).await;
        let Some(due) = take_due(idle_max) else { return };
        for mark in due.iter().filter_map(Weak::upgrade) {
            // It may have been busy meanwhile.
            if mark.is_idle_for(idle_max, Instant::now()) {
                mark.wake();
                drop(mark);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The sessions that are due; `None` when there are no sessions any more.
fn take_due(idle_max: Duration) -> Option<Vec<Weak<IdleMark>>> {
    let now = Instant::now();
    MARKS.with_borrow_mut(|marks| {
        let mut due = Vec::new();
        marks.marks.retain(|mark| match mark.upgrade() {
            Some(known) => {
                if known.is_idle_for(idle_max, now) {
                    due.push(Weak::clone(mark));
                }
                true
            }
            None => false,
        });
        marks.is_looking = !marks.marks.is_empty();
        marks.is_looking.then_some(due)
    })
}

/// Makes every idle session of this thread due, whatever its time: memory or maps are needed for another one.
pub(crate) fn press() {
    let now = Instant::now();
    let marks = MARKS.with_borrow(|marks| marks.marks.clone());
    for mark in marks.iter().filter_map(Weak::upgrade) {
        if mark.is_idle_for(Duration::ZERO, now) {
            mark.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn only_sessions_that_wait_long_enough_are_due() {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let idle = Duration::from_millis(20);
                let (first, second) = (IdleMark::register(idle), IdleMark::register(idle));
                first.begin(Instant::now());
                assert!(first.due().now_or_never().is_none());
                first.due().await;
                assert!(second.due().now_or_never().is_none(), "it does not wait");
                first.begin(Instant::now());
                assert!(first.due().now_or_never().is_none(), "it starts over");
                press();
                assert!(first.due().now_or_never().is_some());
                first.end();
                assert!(first.due().now_or_never().is_none(), "it was due once");
                assert!(!first.is_idle_for(Duration::ZERO, Instant::now()));
            })
            .await;
    }

    #[tokio::test]
    async fn task_ends_with_the_last_session_and_starts_again() {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mark = IdleMark::register(Duration::from_millis(5));
                drop(mark);
                while MARKS.with_borrow(|marks| marks.is_looking) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let mark = IdleMark::register(Duration::from_millis(5));
                mark.begin(Instant::now());
                mark.due().await;
            })
            .await;
    }
}

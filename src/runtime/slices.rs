//! The slices of long-running scripts on a shard: one at a time, in the order of [`FairQueue`].
//!
//! A turn that used up its first slice becomes a [`Contender`] until it is over. Turns that fit into one slice run
//! whenever their session's task is polled, unless their principal is already ahead of one that waits.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::fair::FairQueue;

thread_local! {
    static SLICES: RefCell<Slices> = RefCell::default();
}

/// The contenders of this thread.
#[derive(Default)]
struct Slices {
    queue: FairQueue<usize, Place>,
    /// Whether a contender has been granted a slice that is not over yet.
    is_granted: bool,
}

/// A contender's place, shared with the queue; compared by identity.
#[derive(Debug, Clone)]
struct Place(Rc<Waiter>);

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

#[derive(Debug)]
struct Waiter {
    phase: Cell<Phase>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Neither waiting nor running.
    Idle,
    Waiting,
    Granted,
}

impl Slices {
    /// Grants the next slice, unless one is granted already. Returns the task to wake.
    fn grant_next(&mut self) -> Option<Waker> {
        if self.is_granted {
            return None;
        }
        let Place(waiter) = self.queue.pop()?;
        self.is_granted = true;
        waiter.phase.set(Phase::Granted);
        waiter.waker.take()
    }
}

/// A session in the middle of a long turn.
#[derive(Debug)]
pub(crate) struct Contender {
    principal: usize,
    place: Place,
}

impl Contender {
    /// A contender for a session of that principal.
    pub(crate) fn new(principal: usize) -> Self {
        SLICES.with_borrow_mut(|slices| slices.queue.join(principal));
        let waiter = Waiter { phase: Cell::new(Phase::Idle), waker: RefCell::new(None) };
        Self { principal, place: Place(Rc::new(waiter)) }
    }

    /// Ends the current slice, if there is one, and waits for the next.
    pub(crate) async fn next_slice(&self) {
        let woken = SLICES.with_borrow_mut(|slices| {
            // First queued, then released: otherwise the others of this principal would be picked in its absence.
            slices.queue.push(self.principal, self.place.clone());
            if self.place.0.phase.replace(Phase::Waiting) == Phase::Granted {
                slices.is_granted = false;
            }
            slices.grant_next()
        });
        wake(woken);
        poll_fn(|context| {
            if self.place.0.phase.get() == Phase::Granted {
                return Poll::Ready(());
            }
            self.place.0.waker.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        // At the first yield the sockets are read; by the second their messages are answered.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let woken = SLICES.with_borrow_mut(|slices| {
            match self.place.0.phase.get() {
                Phase::Idle => {}
                Phase::Waiting => slices.queue.remove(self.principal, &self.place),
                Phase::Granted => slices.is_granted = false,
            }
            slices.queue.leave(self.principal);
            slices.grant_next()
        });
        wake(woken);
    }
}

/// Outside the borrow: a waker may run code of the executor.
fn wake(woken: Option<Waker>) {
    if let Some(waker) = woken {
        waker.wake();
    }
}

/// Counts CPU time that a session of that principal used on this thread.
pub(crate) fn charge(principal: usize, used: Duration) {
    SLICES.with_borrow_mut(|slices| slices.queue.charge(principal, used));
}

/// Whether a new turn of that principal has to queue. See [`FairQueue::is_ahead`].
pub(crate) fn is_ahead(principal: usize) -> bool {
    SLICES.with_borrow(|slices| slices.queue.is_ahead(principal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn one_contender_runs_at_a_time_and_principals_alternate() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let local = tokio::task::LocalSet::new();
        for (principal, sessions) in [(1, 1), (2, 3)] {
            for session in 0..sessions {
                let order = Rc::clone(&order);
                local.spawn_local(async move {
                    let contender = Contender::new(principal);
                    for _ in 0..6 {
                        contender.next_slice().await;
                        order.borrow_mut().push((principal, session));
                        charge(principal, Duration::from_micros(20));
                    }
                });
            }
        }
        local.await;
        let order = order.borrow();
        let of_first = order.iter().take(12).filter(|(principal, _)| *principal == 1).count();
        assert_eq!(of_first, 6, "{order:?}");
        assert_eq!(order.len(), 24);
        assert!(SLICES.with_borrow(|slices| !slices.is_granted && !slices.queue.is_ahead(2)));
    }

    #[tokio::test]
    async fn dropped_contender_passes_its_slice_on() {
        let (first, second) = (Contender::new(1), Contender::new(2));
        first.next_slice().await;
        let mut waiting = Box::pin(second.next_slice());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(first);
        waiting.await;
    }

    #[tokio::test]
    async fn contender_dropped_while_it_waits_leaves_the_queue() {
        let (first, second, third) = (Contender::new(1), Contender::new(2), Contender::new(3));
        first.next_slice().await;
        assert!(second.next_slice().now_or_never().is_none());
        drop(second);
        let mut waiting = Box::pin(third.next_slice());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(first);
        waiting.await;
    }
}

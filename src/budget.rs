//! How many bytes of messages may be in memory at one time, per connection and for the whole server.
//!
//! A message is charged when its frame is read and released when the session has answered it, wherever it waits in
//! between. Past a budget the socket is not read, so nothing is lost and the client is slowed down by TCP itself.
//!
//! Requests and answers have separate budgets, because a request may wait for an answer of the same client: if both
//! drew on one budget, evals that wait for the client's answers could use it up and the answers could never be read.
//! Answers wait only for the next turn of their session, so their budget always drains.
//!
//! A message that is still arriving is counted too. Once more than [`UNCOUNTED_BYTES_MAX`] of it are there, room for the
//! longest message is reserved before the rest is read: if bytes were taken as they come, several half-read messages
//! could use the budget up and none of them could ever be completed.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// What each connection may hold without counting towards the budget of the server.
/// Small messages then touch no memory that shards share, and get through however much the others hold. With 24 000
/// connections this is 1.5 GiB at the very worst.
pub(crate) const UNCOUNTED_BYTES_MAX: usize = 64 << 10;

/// Counted for each message beside its text, for the entries it has in tables and queues.
const MESSAGE_OVERHEAD_BYTES: usize = 512;

/// How long a large message may take from the reservation of its room to its last byte.
/// 16 MiB in a minute is 2 Mbit/s; without it, clients that stop in the middle would hold the room of all others.
pub(crate) const LARGE_MESSAGE_TIME_MAX: Duration = Duration::from_secs(60);

/// Which budget a message is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request of the client, which may wait for something else.
    Request,
    /// An answer to a call of the server, which waits only for its turn.
    Answer,
}

#[derive(Debug)]
struct Pool {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Pool {
    fn new(bytes_max: usize) -> Self {
        Self { used: AtomicUsize::new(0), bytes_max }
    }

    fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    fn is_full(&self) -> bool {
        self.used() >= self.bytes_max
    }

    /// Reserves `bytes` if they fit. An empty pool always grants them, however small it is.
    fn try_take(&self, bytes: usize) -> bool {
        let fits = |used: usize| {
            let after = used.saturating_add(bytes);
            (used == 0 || after <= self.bytes_max).then_some(after)
        };
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }
}

#[derive(Debug)]
struct Pools {
    requests: Pool,
    answers: Pool,
}

impl Pools {
    fn new(bytes_max: usize) -> Self {
        Self { requests: Pool::new(bytes_max), answers: Pool::new(bytes_max) }
    }

    fn of(&self, purpose: Purpose) -> &Pool {
        match purpose {
            Purpose::Request => &self.requests,
            Purpose::Answer => &self.answers,
        }
    }
}

/// The budget of a whole server.
#[derive(Debug)]
pub(crate) struct ServerBudget {
    pools: Pools,
    freed: Notify,
}

impl ServerBudget {
    /// Room for `bytes_max` of requests, and as much for answers.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { pools: Pools::new(bytes_max), freed: Notify::new() })
    }

    /// Bytes in flight that count towards the budget.
    pub(crate) fn used(&self, purpose: Purpose) -> usize {
        self.pools.of(purpose).used()
    }

    fn release(&self, purpose: Purpose, bytes: usize) {
        if bytes > 0 {
            self.pools.of(purpose).used.fetch_sub(bytes, Relaxed);
            self.freed.notify_waiters();
        }
    }
}

/// Room that is reserved for the message that a connection is reading.
#[derive(Debug)]
struct Reservation {
    purpose: Purpose,
    since: Instant,
}

/// The budget of one connection. It lives as long as anything that was charged to it.
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    server: Arc<ServerBudget>,
    pools: Pools,
    freed: Notify,
    message_bytes_max: usize,
    /// Whether the client has calls of the server to answer.
    awaits_answers: AtomicBool,
    /// Bytes read of a message that is not complete.
    partial: AtomicUsize,
    is_held_back: AtomicBool,
    has_reserved: AtomicBool,
    reservation: Mutex<Option<Reservation>>,
}

impl ConnectionBudget {
    /// Room for `bytes_max`, for a connection with messages of up to `message_bytes_max`.
    pub(crate) fn new(server: &Arc<ServerBudget>, bytes_max: usize, message_bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            server: Arc::clone(server),
            pools: Pools::new(bytes_max),
            freed: Notify::new(),
            message_bytes_max,
            awaits_answers: AtomicBool::new(false),
            partial: AtomicUsize::new(0),
            is_held_back: AtomicBool::new(false),
            has_reserved: AtomicBool::new(false),
            reservation: Mutex::default(),
        })
    }

    /// Charges a message of that length. It has been read, so it is charged whether there is room or not: a connection
    /// exceeds its budget by one message at most.
    pub(crate) fn charge(self: &Arc<Self>, purpose: Purpose, message_bytes: usize) -> Charge {
        let bytes = message_bytes.saturating_add(MESSAGE_OVERHEAD_BYTES);
        self.take(purpose, bytes);
        Charge { budget: Some(Arc::clone(self)), purpose, bytes }
    }

    /// Sets whether the client has calls to answer.
    pub(crate) fn set_awaits_answers(&self, awaits: bool) {
        self.awaits_answers.store(awaits, Relaxed);
    }

    /// Whether the next message may be read. A client that has calls to answer is read even if its requests have used
    /// up the budget, because they may wait for these answers; further requests must then be refused.
    pub(crate) fn may_read(&self) -> bool {
        let has_room = |purpose| !self.is_over(purpose);
        has_room(Purpose::Answer) && (has_room(Purpose::Request) || self.awaits_answers.load(Relaxed))
    }

    /// Whether a further message of that kind would exceed a budget.
    pub(crate) fn is_over(&self, purpose: Purpose) -> bool {
        let own = self.pools.of(purpose);
        own.is_full() || own.used() > UNCOUNTED_BYTES_MAX && self.server.pools.of(purpose).is_full()
    }

    /// Waits until [`Self::may_read`]. Only for the one task that reads the connection.
    pub(crate) async fn wait_for_room(&self) {
        loop {
            let mut server_freed = std::pin::pin!(self.server.freed.notified());
            // Registered before the check, so that nothing released in between is missed.
            server_freed.as_mut().enable();
            if self.may_read() {
                return;
            }
            tokio::select! {
                () = self.freed.notified() => {}
                () = server_freed => {}
            }
        }
    }

    /// Bytes in flight.
    #[cfg(test)]
    pub(crate) fn used(&self, purpose: Purpose) -> usize {
        self.pools.of(purpose).used()
    }

    /// Counts a part of a message that was read.
    pub(crate) fn add_partial(&self, bytes: usize) {
        self.partial.fetch_add(bytes, Relaxed);
    }

    /// Ends the count of a message that is complete; from here on it is charged by its length.
    pub(crate) fn end_partial(&self) {
        self.partial.store(0, Relaxed);
        if self.has_reserved.swap(false, Relaxed)
            && let Some(Reservation { purpose, .. }) = self.reservation.lock().take()
        {
            self.server.release(purpose, self.message_bytes_max);
        }
    }

    /// Reserves room for the message that is being read, unless it is small or has room already.
    pub(crate) fn try_reserve(&self) -> Result<(), ReserveError> {
        if self.partial.load(Relaxed) <= UNCOUNTED_BYTES_MAX {
            return Ok(());
        }
        let mut reservation = self.reservation.lock();
        if let Some(Reservation { since, .. }) = *reservation {
            let is_late = since.elapsed() > LARGE_MESSAGE_TIME_MAX;
            return if is_late { Err(ReserveError::TooSlow) } else { Ok(()) };
        }
        let awaits_answers = self.awaits_answers.load(Relaxed);
        let purposes =
            if awaits_answers { &[Purpose::Answer, Purpose::Request][..] } else { &[Purpose::Request] };
        let is_taken = |purpose: &Purpose| self.server.pools.of(*purpose).try_take(self.message_bytes_max);
        let Some(purpose) = purposes.iter().copied().find(is_taken) else {
            self.is_held_back.store(true, Relaxed);
            return Err(ReserveError::Full);
        };
        self.is_held_back.store(false, Relaxed);
        self.has_reserved.store(true, Relaxed);
        *reservation = Some(Reservation { purpose, since: Instant::now() });
        Ok(())
    }

    /// Resolves when the server has released something.
    pub(crate) fn server_freed(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let server = Arc::clone(&self.server);
        Box::pin(async move { server.freed.notified().await })
    }

    /// Whether the message that is being read waits for room.
    pub(crate) fn is_held_back(&self) -> bool {
        self.is_held_back.load(Relaxed)
    }

    fn take(&self, purpose: Purpose, bytes: usize) {
        let before = self.pools.of(purpose).used.fetch_add(bytes, Relaxed);
        let counted = counted(before + bytes) - counted(before);
        if counted > 0 {
            self.server.pools.of(purpose).used.fetch_add(counted, Relaxed);
        }
    }

    fn release(&self, purpose: Purpose, bytes: usize) {
        let before = self.pools.of(purpose).used.fetch_sub(bytes, Relaxed);
        self.server.release(purpose, counted(before) - counted(before - bytes));
        // A stored permit wakes the reader even if it is not waiting yet. Below the uncounted part it never waits.
        if before > UNCOUNTED_BYTES_MAX || before >= self.pools.of(purpose).bytes_max {
            self.freed.notify_one();
        }
    }
}

impl Drop for ConnectionBudget {
    fn drop(&mut self) {
        self.end_partial();
    }
}

/// The part of what a connection holds that counts towards the server's budget.
fn counted(used: usize) -> usize {
    used.saturating_sub(UNCOUNTED_BYTES_MAX)
}

/// Why no more of a message is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReserveError {
    /// The server's budget is used up.
    Full,
    /// The message has been arriving for longer than [`LARGE_MESSAGE_TIME_MAX`].
    TooSlow,
}

/// Bytes charged to a connection and its server until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Charge {
    budget: Option<Arc<ConnectionBudget>>,
    purpose: Purpose,
    bytes: usize,
}

impl Charge {
    /// The charge of a message that did not come from a client: nothing.
    pub(crate) fn none() -> Self {
        Self { budget: None, purpose: Purpose::Request, bytes: 0 }
    }

    /// Whether anything is charged.
    pub(crate) fn is_counted(&self) -> bool {
        self.budget.is_some()
    }

    /// Charges further bytes, such as those of a parsed value; `false` if there is no room for them. A charge that is
    /// the connection's only one always grows.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let Some(budget) = &self.budget else { return true };
        let own = budget.pools.of(self.purpose);
        let server = budget.server.pools.of(self.purpose);
        let is_alone = own.used() <= self.bytes;
        let fits = |pool: &Pool| pool.used().saturating_add(bytes) <= pool.bytes_max;
        let is_granted = is_alone || fits(own) && fits(server);
        if !is_granted {
            return false;
        }
        budget.take(self.purpose, bytes);
        self.bytes += bytes;
        true
    }

    /// Releases the bytes of a text that was dropped; the overhead of the open request stays charged.
    pub(crate) fn release_text(&mut self) {
        let Some(budget) = &self.budget else { return };
        let released = self.bytes.saturating_sub(MESSAGE_OVERHEAD_BYTES);
        if released > 0 {
            self.bytes -= released;
            budget.release(self.purpose, released);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(budget) = self.budget.take() {
            budget.release(self.purpose, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests;

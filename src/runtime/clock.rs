//! The one place where a session reads the clock and draws random numbers, so that a test can choose both.
//!
//! `performance`, the timers, `crypto` and `Math.random` all come here. `Date` does not: it is QuickJS's own, which reads
//! the time of the system. A function of the prelude in its place would show in stack traces, and make a `new Date()` more
//! than three times as expensive.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::session::Time;

/// Time and chance for one session.
#[derive(Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    /// The time of the session at `epoch`: what it lived in other processes, and the time between them.
    offset: Duration,
    /// Milliseconds from 1970 to the start of the session.
    origin_ms: f64,
    /// Takes the place of the operating system in a test.
    seeded: Option<Seeded>,
}

/// Time and chance that follow from a seed.
#[derive(Debug)]
struct Seeded {
    /// The state of the generator.
    random: Cell<u64>,
    /// The time since the session began.
    elapsed: Cell<Duration>,
}

impl Clock {
    /// Starts now, with the randomness of the operating system.
    pub(crate) fn start() -> Self {
        let origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            epoch: Instant::now(),
            offset: Duration::ZERO,
            origin_ms: origin.as_secs_f64() * 1e3,
            seeded: None,
        }
    }

    /// Goes on for a session that began at `origin_ms` and was stored at `stored_at`: by the clock of the system, but
    /// never back.
    pub(crate) fn resume(origin_ms: f64, stored_at: Time) -> Self {
        let clock = Self::start();
        let elapsed = Duration::try_from_secs_f64((clock.origin_ms - origin_ms) / 1e3).unwrap_or_default();
        let offset = elapsed.max(stored_at.since_start()).min(crate::limits::DURATION_MAX);
        Self { offset, origin_ms, ..clock }
    }

    /// Starts on the first day of 2001 and stands still until it is [advanced](Self::advance); random bytes follow from
    /// `seed`.
    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        let seeded = Seeded { random: Cell::new(seed), elapsed: Cell::default() };
        Self {
            epoch: Instant::now(),
            offset: Duration::ZERO,
            origin_ms: 978_307_200_000.0,
            seeded: Some(seeded),
        }
    }

    /// Moves a seeded clock on.
    #[cfg(test)]
    pub(crate) fn advance(&self, by: Duration) {
        let seeded = self.seeded.as_ref().unwrap();
        seeded.elapsed.set(seeded.elapsed.get() + by);
    }

    /// The clock of a fork: the same time, and random numbers of its own.
    pub(crate) fn fork(&self) -> Self {
        let seeded = self.seeded.as_ref().map(|Seeded { random, elapsed }| {
            random.set(split_mix(random.get()));
            Seeded { random: Cell::new(!random.get()), elapsed: elapsed.clone() }
        });
        Self { epoch: self.epoch, offset: self.offset, origin_ms: self.origin_ms, seeded }
    }

    /// The time since the session began.
    pub(crate) fn now(&self) -> Time {
        let elapsed = self.seeded.as_ref().map(|seeded| seeded.elapsed.get());
        Time::after_start(elapsed.unwrap_or_else(|| self.offset + self.epoch.elapsed()))
    }

    /// Seconds of the clock of the system, for what is done once in a while.
    pub(crate) fn process_seconds(&self) -> u64 {
        (self.origin_ms / 1e3) as u64 + self.now().since_start().as_secs()
    }

    /// When that moment of the session is by the clock of this process.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        let ahead = time.since_start().saturating_sub(self.offset);
        self.epoch.checked_add(ahead).unwrap_or_else(|| self.epoch + crate::limits::DURATION_MAX)
    }

    /// Milliseconds from 1970 to the start of the session.
    pub(crate) fn origin_ms(&self) -> f64 {
        self.origin_ms
    }

    /// Fills `bytes` with random ones; `false` when the operating system has none.
    pub(crate) fn fill_random(&self, bytes: &mut [u8]) -> bool {
        let Some(Seeded { random, .. }) = &self.seeded else { return getrandom::fill(bytes).is_ok() };
        for chunk in bytes.chunks_mut(8) {
            random.set(split_mix(random.get()));
            chunk.copy_from_slice(&random.get().to_le_bytes()[..chunk.len()]);
        }
        true
    }
}

/// One step of a generator that is good enough for tests.
fn split_mix(state: u64) -> u64 {
    let mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;

//! Which long-running script of a shard runs next: fair between principals, then between the sessions of one.
//!
//! Every principal has a clock of the CPU time that it has used on the shard. The principal whose clock is behind
//! goes first, and its sessions take turns. So a principal with one looping session gets as much as one with four
//! hundred, whatever their slices take. A principal that joins starts at the clock of the one that is furthest behind:
//! it neither pays for nor profits from the time when it was away.
//!
//! Pure: no clock, no tasks. `K` names a principal, `T` is a waiting session.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// How far a principal may run ahead of one that waits before its new turns have to queue as well.
/// Quick turns of a principal that uses little never queue; a principal that floods a shard with them is stopped after
/// this much. Some fifty slices: long enough to keep the queue out of ordinary traffic, short enough not to be noticed.
const LEAD_MAX: Duration = Duration::from_millis(1);

/// The waiting sessions of a shard. See the module.
#[derive(Debug)]
pub(crate) struct FairQueue<K, T> {
    principals: HashMap<K, Principal<T>>,
    /// Those with a waiting session, the one furthest behind first.
    waiting: BTreeSet<(Duration, K)>,
    /// Sessions of all principals in the middle of a long turn.
    contenders: usize,
}

#[derive(Debug)]
struct Principal<T> {
    used: Duration,
    sessions: VecDeque<T>,
    /// Its sessions in the middle of a long turn, waiting or running.
    contenders: usize,
}

impl<T> Principal<T> {
    fn new(used: Duration) -> Self {
        Self { used, sessions: VecDeque::new(), contenders: 0 }
    }
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { principals: HashMap::new(), waiting: BTreeSet::new(), contenders: 0 }
    }
}

impl<K: Copy + Ord + Hash, T: PartialEq> FairQueue<K, T> {
    /// A session of `key` begins to contend for slices.
    pub(crate) fn join(&mut self, key: K) {
        let start = self.least_used().unwrap_or_default();
        let principal = self.principals.entry(key).or_insert_with(|| Principal::new(start));
        if principal.contenders == 0 {
            // Time that it did not ask for is not saved up.
            principal.used = principal.used.max(start);
        }
        principal.contenders += 1;
        self.contenders += 1;
    }

    /// A session of `key` no longer contends. The clocks are forgotten with the last one.
    pub(crate) fn leave(&mut self, key: K) {
        if let Some(principal) = self.principals.get_mut(&key) {
            principal.contenders -= 1;
            self.contenders -= 1;
        }
        if self.contenders == 0 {
            self.principals.clear();
            self.waiting.clear();
        }
    }

    /// A session waits for its next slice, behind the others of its principal.
    pub(crate) fn push(&mut self, key: K, session: T) {
        if let Some(principal) = self.principals.get_mut(&key) {
            principal.sessions.push_back(session);
            self.waiting.insert((principal.used, key));
        }
    }

    /// A session no longer waits.
    pub(crate) fn remove(&mut self, key: K, session: &T) {
        if let Some(principal) = self.principals.get_mut(&key) {
            principal.sessions.retain(|waiting| waiting != session);
            if principal.sessions.is_empty() {
                self.waiting.remove(&(principal.used, key));
            }
        }
    }

    /// Takes the session that runs next.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (used, key) = *self.waiting.first()?;
        let principal = self.principals.get_mut(&key)?;
        let session = principal.sessions.pop_front();
        if principal.sessions.is_empty() {
            self.waiting.remove(&(used, key));
        }
        session
    }

    /// Advances the clock of `key`. Without contention nothing is counted.
    pub(crate) fn charge(&mut self, key: K, used: Duration) {
        if self.contenders == 0 {
            return;
        }
        if !self.principals.contains_key(&key) {
            let start = self.least_used().unwrap_or_default();
            self.principals.insert(key, Principal::new(start));
        }
        let Some(principal) = self.principals.get_mut(&key) else { return };
        let is_waiting = self.waiting.remove(&(principal.used, key));
        principal.used += used;
        if is_waiting {
            self.waiting.insert((principal.used, key));
        }
    }

    /// Whether a new turn of `key` has to queue: its principal is ahead of another that contends.
    pub(crate) fn is_ahead(&self, key: K) -> bool {
        let Some(own) = self.principals.get(&key) else { return false };
        self.principals.iter().any(|(other, principal)| {
            *other != key && principal.contenders > 0 && principal.used + LEAD_MAX < own.used
        })
    }

    /// The clock of the principal that is furthest behind, of those that contend.
    fn least_used(&self) -> Option<Duration> {
        let contending = self.principals.values().filter(|principal| principal.contenders > 0);
        contending.map(|principal| principal.used).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLICE: Duration = Duration::from_micros(20);

    /// Runs `slices` slices of endless loops; `sessions[k]` is how many sessions principal `k` has, `slice(k)` how long
    /// each of its slices takes. Returns the CPU time of each principal.
    fn run_loops(sessions: &[usize], slices: usize, slice: impl Fn(usize) -> Duration) -> Vec<Duration> {
        let mut queue = FairQueue::default();
        for (key, count) in sessions.iter().enumerate() {
            for session in 0..*count {
                queue.join(key);
                queue.push(key, (key, session));
            }
        }
        let mut used = vec![Duration::ZERO; sessions.len()];
        for _ in 0..slices {
            let (key, session) = queue.pop().unwrap();
            used[key] += slice(key);
            queue.charge(key, slice(key));
            queue.push(key, (key, session));
        }
        used
    }

    #[test]
    fn one_session_gets_as_much_as_four_hundred() {
        let used = run_loops(&[1, 400], 10_000, |_| SLICE);
        assert_eq!(used, [SLICE * 5_000, SLICE * 5_000]);
    }

    #[test]
    fn principal_with_long_slices_gets_no_more_time() {
        let used = run_loops(&[1, 3], 20_000, |key| if key == 0 { SLICE } else { SLICE * 50 });
        let difference = used[0].abs_diff(used[1]);
        assert!(difference <= SLICE * 50, "{used:?}");
    }

    #[test]
    fn sessions_of_a_principal_take_turns() {
        let mut queue = FairQueue::default();
        for session in 0..3 {
            queue.join("a");
            queue.push("a", session);
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let session = queue.pop().unwrap();
            order.push(session);
            queue.charge("a", SLICE);
            queue.push("a", session);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn returning_principal_has_no_saved_time() {
        let mut queue = FairQueue::default();
        queue.join("busy");
        queue.charge("busy", Duration::from_secs(10));
        queue.join("late");
        queue.push("busy", 0);
        queue.push("late", 1);
        assert_eq!(queue.pop(), Some(0));
        queue.charge("busy", SLICE);
        queue.push("busy", 0);
        assert_eq!(queue.pop(), Some(1));
    }

    #[test]
    fn quick_turns_queue_once_their_principal_is_ahead() {
        let mut queue: FairQueue<&str, ()> = FairQueue::default();
        queue.charge("quick", Duration::from_secs(1));
        assert!(!queue.is_ahead("quick"), "without contention nothing counts");
        queue.join("job");
        queue.charge("quick", LEAD_MAX);
        assert!(!queue.is_ahead("quick"));
        queue.charge("quick", Duration::from_nanos(1));
        assert!(queue.is_ahead("quick"));
        assert!(!queue.is_ahead("job"));
        queue.charge("job", SLICE);
        assert!(!queue.is_ahead("quick"));
        queue.leave("job");
        assert!(queue.principals.is_empty());
    }

    #[test]
    fn removed_session_is_not_picked() {
        let mut queue = FairQueue::default();
        queue.join("a");
        queue.join("a");
        queue.push("a", 1);
        queue.push("a", 2);
        queue.remove("a", &1);
        assert_eq!(queue.pop(), Some(2));
        assert_eq!(queue.pop(), None);
    }

    proptest! {
        #[test]
        fn shares_differ_by_one_slice_at_most(
            sessions in prop::collection::vec(1..40_usize, 2..6),
            slices in 100..2_000_usize,
        ) {
            let used = run_loops(&sessions, slices, |_| SLICE);
            let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
            prop_assert!(*most - *least <= SLICE, "{:?}", used);
        }
    }
}

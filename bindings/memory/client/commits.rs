//! The commits of one session: those without a result, and conflicts that are held back.
//!
//! A commit outlives the connection: it is sent again in the next one, and the server recognises it
//! by its `localSeq`. A conflict is reported to the script only when the session has received the
//! documents that changed, so that an immediate retry can succeed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::super::codec::Data;
use super::request::{ClientError, Reply};

/// Longest time a conflict is held back. Servers send the missing documents within half a second;
/// one that never does must not block the script.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);

/// A commit whose result is not known.
#[derive(Debug)]
struct PendingCommit {
    commit: Data,
    reply_tx: Reply,
    is_sent: bool,
}

#[derive(Debug)]
struct HeldConflict {
    local_seq: u64,
    until: Instant,
    error: ClientError,
    reply_tx: Reply,
}

#[derive(Debug, Default)]
pub(super) struct Commits {
    last_local_seq: u64,
    /// The last own commit up to which the server has sent all conflicting changes.
    caught_up: u64,
    pending: BTreeMap<u64, PendingCommit>,
    conflicts: Vec<HeldConflict>,
}

impl Commits {
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn has_conflicts(&self) -> bool {
        !self.conflicts.is_empty()
    }

    /// Adds a commit under the next `localSeq`.
    pub(super) fn add(&mut self, mut commit: Data, reply_tx: Reply) {
        self.last_local_seq += 1;
        if let Data::Map(members) = &mut commit {
            members.insert("localSeq".to_owned(), self.last_local_seq.into());
        }
        self.pending.insert(self.last_local_seq, PendingCommit { commit, reply_tx, is_sent: false });
    }

    /// Marks all commits as sent and returns those that were not, in order.
    pub(super) fn take_unsent(&mut self) -> Vec<(u64, Data)> {
        let unsent = self.pending.iter_mut().filter(|(_, pending)| !pending.is_sent);
        unsent
            .map(|(local_seq, pending)| {
                pending.is_sent = true;
                (*local_seq, pending.commit.clone())
            })
            .collect()
    }

    /// Makes sure that every commit without a result is sent again.
    pub(super) fn mark_unsent(&mut self) {
        self.pending.values_mut().for_each(|pending| pending.is_sent = false);
    }

    pub(super) fn on_result(&mut self, local_seq: u64, result: Result<Data, ClientError>, now: Instant) {
        let Some(PendingCommit { reply_tx, .. }) = self.pending.remove(&local_seq) else { return };
        match result {
            Err(error)
                if error.name == "ConflictError"
                    && error.retry_after_seq.is_some()
                    && self.caught_up < local_seq =>
            {
                self.conflicts.push(HeldConflict { local_seq, until: now + CATCH_UP_MAX, error, reply_tx });
            }
            result => {
                let _ = reply_tx.send(result);
            }
        }
    }

    /// Records a `caughtUpLocalSeq` of the server, which releases the conflicts up to it.
    pub(super) fn record_caught_up(&mut self, local_seq: u64) {
        self.caught_up = self.caught_up.max(local_seq);
        let caught_up = self.caught_up;
        self.release_conflicts(|conflict| conflict.local_seq <= caught_up);
    }

    /// A new session replaced the old one. The `caughtUpLocalSeq` that conflicts wait for will not
    /// come any more, and the new session starts with current documents.
    pub(super) fn on_new_session(&mut self) {
        self.caught_up = 0;
        self.release_conflicts(|_| true);
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.conflicts.iter().map(|conflict| conflict.until).min()
    }

    pub(super) fn wake(&mut self, now: Instant) {
        self.release_conflicts(|conflict| conflict.until <= now);
    }

    fn release_conflicts(&mut self, is_due: impl Fn(&HeldConflict) -> bool) {
        let (due, held): (Vec<_>, Vec<_>) = self.conflicts.drain(..).partition(is_due);
        self.conflicts = held;
        for HeldConflict { reply_tx, error, .. } in due {
            let _ = reply_tx.send(Err(error));
        }
    }

    /// Keeps commits for the next connection, except unsent ones whose caller stopped waiting.
    pub(super) fn on_disconnect(&mut self) {
        self.pending.retain(|_, pending| !pending.reply_tx.is_closed() || pending.is_sent);
        self.mark_unsent();
    }

    pub(super) fn fail_all(&mut self, error: &ClientError) {
        let pending = std::mem::take(&mut self.pending).into_values().map(|pending| pending.reply_tx);
        let conflicts = std::mem::take(&mut self.conflicts).into_iter().map(|conflict| conflict.reply_tx);
        for reply_tx in pending.chain(conflicts) {
            let _ = reply_tx.send(Err(error.clone()));
        }
    }

    /// Restarts the numbering for a session that the server does not know yet.
    pub(super) fn reset(&mut self) {
        self.last_local_seq = 0;
        self.caught_up = 0;
    }
}

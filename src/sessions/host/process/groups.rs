//! Which workers there are, and which of them a new session goes to.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::worker::Worker;

/// The workers of one principal, or of one session where those are apart.
#[derive(Default)]
struct Group {
    /// A worker ends with its last session.
    workers: Vec<Weak<Worker>>,
    /// Workers that are being started.
    starting: usize,
}

impl Group {
    fn len(&self) -> usize {
        self.workers.len() + self.starting
    }
}

/// All workers of a server.
#[derive(Default)]
pub(super) struct Groups(HashMap<String, Group>);

/// Where a session goes.
pub(super) enum Placement {
    /// To this worker.
    Existing(Arc<Worker>),
    /// To a new one. [`Groups::end_start`] has to follow.
    New,
    /// There is no place for it.
    Full,
}

impl Groups {
    /// Chooses a place for a session: a worker of its own while there may be more, otherwise the one of its group with the
    /// fewest sessions.
    pub(super) fn place(&mut self, group: &str, group_max: usize, workers_max: usize) -> Placement {
        self.0.retain(|_, group| {
            group.workers.retain(|worker| worker.upgrade().is_some_and(|worker| !worker.has_ended()));
            group.len() > 0
        });
        let total: usize = self.0.values().map(Group::len).sum();
        let own = self.0.get(group);
        let is_full = own.is_some_and(|own| own.len() >= group_max) || total >= workers_max;
        if !is_full {
            self.0.entry(group.to_owned()).or_default().starting += 1;
            return Placement::New;
        }
        let workers = own.map(|own| own.workers.as_slice()).unwrap_or_default();
        let least = workers.iter().filter_map(Weak::upgrade).min_by_key(|worker| worker.session_count());
        least.map_or(Placement::Full, Placement::Existing)
    }

    /// A worker was started, or could not be.
    pub(super) fn end_start(&mut self, group: &str, worker: Option<&Arc<Worker>>) {
        if let Some(group) = self.0.get_mut(group) {
            group.starting = group.starting.saturating_sub(1);
            group.workers.extend(worker.map(Arc::downgrade));
        }
    }
}

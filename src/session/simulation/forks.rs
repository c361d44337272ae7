//! Forks in a history: each goes on in a world of its own, with the same checks.

use serde_json::json;

use super::World;
use crate::protocol::fn_ref::FnRef;
use crate::rpc::{ErrorObject, Kind};
use crate::session::Session;
use crate::session::boundary::ToSession;

/// Forks of one session whose histories are run; a fork may have one less.
pub(super) const FORKS_MAX: usize = 2;

/// Steps of the history of a fork.
const STEPS: usize = 40;

impl World {
    /// The driver forks the session; the host answers later.
    pub(super) fn fork(&mut self, request: u64) {
        assert!(self.turn.is_none(), "forked under a running turn");
        self.host.forks.push(request);
        if self.forks.len() >= self.forks_left {
            return;
        }
        let forked = self.session.fork("fork", None);
        let mut context = self.context.clone();
        forked.freed.into_iter().for_each(|root| context.free(root));
        let host = self.host.fork(|number| forked.state.references.is_known(&FnRef::Handler(number)));
        let mut session = Session::new(forked.state, self.limits.clone());
        session.set_context(forked.facts);
        let seed = self.rng.u64(..);
        self.note(|| format!("forked, with seed {seed}"));
        self.forks.push(Self {
            rng: fastrand::Rng::with_seed(seed),
            round_trip_rng: fastrand::Rng::with_seed(seed),
            round_trips: self.round_trips,
            session,
            limits: self.limits.clone(),
            operations: self.operations.clone(),
            has_busy_handlers: self.has_busy_handlers,
            now: self.now,
            context,
            epoch: self.epoch,
            is_overdrawn: self.is_overdrawn,
            turn: None,
            host,
            clients: self.clients.fork(),
            is_unclaimed: true,
            forks: Vec::new(),
            forks_left: self.forks_left - 1,
            trace: self.trace.as_ref().map(|_| Vec::new()),
        });
    }

    /// The host says what became of a fork; returns whether there was one.
    pub(super) fn answer_fork(&mut self) -> bool {
        let Some(request) = self.host.forks.pop() else { return false };
        let outcome = match self.rng.u8(..4) {
            0 => Err(ErrorObject::new(Kind::Busy, "too many sessions")),
            _ => Ok(json!({"sessionId": "fork", "token": "token"})),
        };
        self.send(ToSession::Forked { request, outcome });
        true
    }

    /// Runs what became of the forks. Their steps are noted with those of the original.
    pub(super) fn run_forks(&mut self) {
        for mut fork in std::mem::take(&mut self.forks) {
            fork.round_trip();
            fork.trace = self.trace.take();
            fork.note(|| "the fork goes on".to_owned());
            for _ in 0..STEPS {
                if fork.host.ended.is_some() {
                    break;
                }
                fork.step();
            }
            fork.finish();
            fork.run_forks();
            self.trace = fork.trace.take();
        }
    }
}

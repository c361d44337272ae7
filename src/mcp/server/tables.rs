//! What the gateway remembers of a principal: sessions, executions, keys and artifacts, all bounded. No clock inside.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::ToolError;
use super::settings::McpSettings;

/// How long a session has to be unused before it is closed to make room for another one.
pub(super) const ROOM_IDLE_MIN: Duration = Duration::from_secs(60);

/// What the tables need to know of a session.
pub(super) trait SessionState {
    /// Whether it can be used: its connection is there.
    fn is_open(&self) -> bool;
}

/// What the tables need to know of an execution.
pub(super) trait ExecutionState {
    /// The handle of its session.
    fn session(&self) -> &str;
    /// When it ended; `None` while it runs.
    fn ended_at(&self) -> Option<Instant>;
}

/// The tables of a principal.
pub(super) struct Tables<S, E> {
    sessions: HashMap<String, (Arc<S>, Instant)>,
    /// Places of sessions that are being opened.
    opening: usize,
    executions: HashMap<String, Arc<E>>,
    keys: HashMap<String, KeyedExecution>,
    artifacts: VecDeque<(String, Arc<str>)>,
    artifact_bytes: usize,
}

/// An execution that was started with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyedExecution {
    pub(super) execution: String,
    /// The hash of code and session, which must be the same in a repetition.
    pub(super) request: u64,
}

impl<S, E> Default for Tables<S, E> {
    fn default() -> Self {
        Self {
            sessions: HashMap::new(),
            opening: 0,
            executions: HashMap::new(),
            keys: HashMap::new(),
            artifacts: VecDeque::new(),
            artifact_bytes: 0,
        }
    }
}

impl<S: SessionState, E: ExecutionState> Tables<S, E> {
    /// The session of that handle; it counts as used.
    pub(super) fn session(&mut self, handle: &str, now: Instant) -> Option<Arc<S>> {
        let (session, used_at) = self.sessions.get_mut(handle)?;
        *used_at = now;
        Some(Arc::clone(session))
    }

    /// Takes a place for a session that is to be opened. Returns the session that is closed for it, if any.
    pub(super) fn reserve_session(
        &mut self,
        settings: &McpSettings,
        now: Instant,
    ) -> Result<Option<Arc<S>>, ToolError> {
        let mut closed = None;
        if self.sessions.len() + self.opening >= settings.sessions_max {
            let oldest = self.idle_sessions(now).into_iter().max_by_key(|(_, idle)| *idle);
            match oldest.filter(|(_, idle)| *idle >= ROOM_IDLE_MIN) {
                Some((handle, _)) => closed = self.remove_session(&handle),
                None => return Err(ToolError::TooManySessions(settings.sessions_max)),
            }
        }
        self.opening += 1;
        Ok(closed)
    }

    /// Sessions without a running execution, and how long they were unused.
    fn idle_sessions(&self, now: Instant) -> Vec<(String, Duration)> {
        let is_idle = |handle: &str| {
            !self.executions.values().any(|one| one.ended_at().is_none() && one.session() == handle)
        };
        let idle = self.sessions.iter().filter(|(handle, _)| is_idle(handle));
        idle.map(|(handle, (_, used_at))| (handle.clone(), now.saturating_duration_since(*used_at))).collect()
    }

    /// The session whose place was reserved is open, or could not be opened.
    pub(super) fn on_opened(&mut self, opened: Option<(String, Arc<S>)>, now: Instant) {
        self.opening = self.opening.saturating_sub(1);
        if let Some((handle, session)) = opened {
            self.sessions.insert(handle, (session, now));
        }
    }

    /// Forgets a session, and the executions and keys in it.
    pub(super) fn remove_session(&mut self, handle: &str) -> Option<Arc<S>> {
        let (session, _) = self.sessions.remove(handle)?;
        self.executions.retain(|_, execution| execution.session() != handle);
        self.forget_keys();
        Some(session)
    }

    /// All sessions with their handles, how long each was unused and how many executions run in it; by handle.
    pub(super) fn list_sessions(&self, now: Instant) -> Vec<(String, Arc<S>, Duration, usize)> {
        let mut listed: Vec<_> = self
            .sessions
            .iter()
            .map(|(handle, (session, used_at))| {
                let idle = now.saturating_duration_since(*used_at);
                (handle.clone(), Arc::clone(session), idle, self.running_in(handle).count())
            })
            .collect();
        listed.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        listed
    }

    /// The executions that run in a session.
    pub(super) fn running_in<'a>(&'a self, session: &'a str) -> impl Iterator<Item = &'a Arc<E>> {
        self.executions.values().filter(move |one| one.ended_at().is_none() && one.session() == session)
    }

    /// Adds an execution; at the limit the one that ended first is forgotten.
    pub(super) fn add_execution(
        &mut self,
        settings: &McpSettings,
        handle: String,
        execution: Arc<E>,
        key: Option<(String, u64)>,
    ) -> Result<(), ToolError> {
        if self.executions.len() >= settings.executions_max {
            let ended = self.executions.iter().filter_map(|(handle, one)| Some((one.ended_at()?, handle)));
            let Some((_, oldest)) = ended.min() else {
                return Err(ToolError::TooManyExecutions(settings.executions_max));
            };
            let oldest = oldest.clone();
            self.executions.remove(&oldest);
            self.forget_keys();
        }
        if let Some((key, request)) = key {
            self.keys.insert(key, KeyedExecution { execution: handle.clone(), request });
        }
        self.executions.insert(handle, execution);
        Ok(())
    }

    /// The execution of that handle.
    pub(super) fn execution(&self, handle: &str) -> Option<Arc<E>> {
        self.executions.get(handle).map(Arc::clone)
    }

    /// Forgets an execution that could not be started.
    pub(super) fn remove_execution(&mut self, handle: &str) {
        self.executions.remove(handle);
        self.forget_keys();
    }

    /// The execution that was started with a key.
    pub(super) fn keyed(&self, key: &str) -> Option<&KeyedExecution> {
        self.keys.get(key)
    }

    fn forget_keys(&mut self) {
        self.keys.retain(|_, keyed| self.executions.contains_key(&keyed.execution));
    }

    /// Keeps a text under an id; the oldest ones make room.
    pub(super) fn keep_artifact(&mut self, settings: &McpSettings, id: String, text: Arc<str>) {
        self.artifact_bytes += text.len();
        self.artifacts.push_back((id, text));
        while self.artifact_bytes > settings.artifacts_bytes_max
            && let Some((_, oldest)) = self.artifacts.pop_front()
        {
            self.artifact_bytes -= oldest.len();
        }
    }

    /// The text of an artifact.
    pub(super) fn artifact(&self, id: &str) -> Option<Arc<str>> {
        self.artifacts.iter().find(|(known, _)| known == id).map(|(_, text)| Arc::clone(text))
    }

    /// Forgets executions that ended long ago and returns sessions that were unused for long, or are lost.
    pub(super) fn expire(&mut self, settings: &McpSettings, now: Instant) -> Vec<Arc<S>> {
        let kept = settings.execution_kept();
        let is_kept = |ended: Instant| now.saturating_duration_since(ended) < kept;
        self.executions.retain(|_, one| one.ended_at().is_none_or(is_kept));
        self.forget_keys();
        let idle = self.idle_sessions(now).into_iter().filter(|(handle, idle)| {
            let is_lost = self.sessions.get(handle).is_some_and(|(session, _)| !session.is_open());
            is_lost || *idle >= settings.session_idle()
        });
        let handles: Vec<String> = idle.map(|(handle, _)| handle).collect();
        handles.iter().filter_map(|handle| self.remove_session(handle)).collect()
    }

    /// Whether nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.opening == 0
            && self.executions.is_empty()
            && self.artifacts.is_empty()
    }
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;

//! Contexts made ahead of their sessions: making one takes several times as long as everything else that a connection
//! needs before its first eval.
//!
//! Each shard keeps its own, because a context cannot change threads. One that was taken is replaced a moment later, so
//! that the new session is served first. A spare context has run nothing but the prelude.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use super::engine::{Engine, EngineError};
use super::shard::Shard;
use super::total::{MemoryTotal, Share};
use crate::limits::Limits;

/// Contexts that each shard keeps ready.
/// Connections mostly come one at a time; a wave is served as fast as contexts can be made, with or without spares.
const SPARE_MAX: usize = 2;

/// How long after a context was taken the next is made.
/// That blocks the shard for about half a millisecond, and the client of the new session is about to send its first eval.
const REFILL_DELAY: Duration = Duration::from_millis(2);

thread_local! {
    static SPARE: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
    static REFILLING: Cell<bool> = const { Cell::new(false) };
}

/// Takes an unused context, or makes one.
pub(crate) fn take(
    limits: &Arc<Limits>,
    memory: &Arc<MemoryTotal>,
    purpose: ContextPurpose,
) -> Result<Engine, EngineError> {
    let spare = SPARE.with_borrow_mut(Vec::pop).filter(|engine| engine.is_of(limits));
    // Only shards take spare contexts.
    if Shard::current().is_some() && !REFILLING.replace(true) {
        tokio::task::spawn_local(refill(Arc::clone(limits), Arc::clone(memory)));
    }
    match spare {
        Some(engine) => Ok(engine),
        None => {
            let share = match purpose {
                ContextPurpose::NewSession => Share::admit(memory).ok_or(EngineError::Full)?,
                ContextPurpose::Replacement => Share::replace(memory),
            };
            Engine::new(Arc::clone(limits), share)
        }
    }
}

/// What a context is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextPurpose {
    /// For a new session, if the memory for sessions allows it.
    NewSession,
    /// In place of one that is dropped immediately after.
    Replacement,
}

/// Makes contexts until there are enough, one at a time.
async fn refill(limits: Arc<Limits>, memory: Arc<MemoryTotal>) {
    while SPARE.with_borrow(Vec::len) < SPARE_MAX {
        tokio::time::sleep(REFILL_DELAY).await;
        // Without room for a spare, the next session reports that itself.
        let Some(share) = Share::admit(&memory) else { break };
        let Ok(engine) = Engine::new(Arc::clone(&limits), share) else { break };
        SPARE.with_borrow_mut(|spares| spares.push(engine));
    }
    REFILLING.set(false);
}

/// Drops the spares, at the end of a shard: a context must be dropped before the thread's own variables.
pub(crate) fn clear() {
    SPARE.take();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlimited() -> Arc<MemoryTotal> {
        MemoryTotal::new(usize::MAX)
    }

    fn spare_count() -> usize {
        SPARE.with_borrow(Vec::len)
    }

    #[tokio::test(start_paused = true)]
    async fn contexts_are_made_up_to_the_limit_and_taken() {
        let limits = Arc::new(Limits::default());
        refill(Arc::clone(&limits), unlimited()).await;
        assert_eq!(spare_count(), SPARE_MAX);
        assert!(take(&limits, &unlimited(), ContextPurpose::NewSession).is_ok());
        assert_eq!(spare_count(), SPARE_MAX - 1);
        clear();
        assert!(take(&limits, &unlimited(), ContextPurpose::NewSession).is_ok());
        assert_eq!(spare_count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn context_of_another_server_is_not_taken() {
        let limits = Arc::new(Limits::default());
        refill(limits, unlimited()).await;
        let smaller = Arc::new(Limits { memory_bytes_max: 8 << 20, ..Limits::default() });
        let engine = take(&smaller, &unlimited(), ContextPurpose::NewSession).unwrap();
        assert!(engine.is_of(&smaller));
        clear();
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_replacement_is_made_without_room() {
        let limits = Arc::new(Limits::default());
        let none = MemoryTotal::new(0);
        refill(Arc::clone(&limits), Arc::clone(&none)).await;
        assert_eq!(spare_count(), 0);
        assert!(matches!(take(&limits, &none, ContextPurpose::NewSession), Err(EngineError::Full)));
        let engine = take(&limits, &none, ContextPurpose::Replacement).unwrap();
        assert!(none.drawn() > 0);
        drop(engine);
        assert_eq!(none.drawn(), 0);
    }
}

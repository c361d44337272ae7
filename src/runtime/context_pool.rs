//! Worlds made ahead, so that whoever comes need not wait for theirs: making one takes several times as long as all
//! else that a connection needs before its first eval.
//!
//! Each shard keeps its own, because a world cannot change threads. One that was taken is replaced when its taker has had
//! time to be served. All are of the shard's server; a spare one has run nothing but the prelude.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use super::engine::{Engine, EngineError};
use super::shard::Shard;
use super::total::{MemoryTotal, Share};
use crate::limits::Limits;

/// Worlds that each shard keeps ready.
/// Connections mostly come one at a time; a wave is served as fast as worlds can be made, spare ones or not.
const SPARE_MAX: usize = 2;

/// How long after a world was taken the next is made.
/// It holds the shard up for about half a millisecond, and whoever took the last one is about to send their first eval.
const REPLACED_AFTER: Duration = Duration::from_millis(2);

thread_local! {
    static SPARE: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
    static REPLACING: Cell<bool> = const { Cell::new(false) };
}

/// A world that nobody has used.
pub(crate) fn take(
    limits: &Arc<Limits>,
    memory: &Arc<MemoryTotal>,
    need: Need,
) -> Result<Engine, EngineError> {
    let context_pool = SPARE.with_borrow_mut(Vec::pop).filter(|engine| engine.is_of(limits));
    // Elsewhere than on a shard nobody would take them.
    if Shard::current().is_some() && !REPLACING.replace(true) {
        tokio::task::spawn_local(replace(Arc::clone(limits), Arc::clone(memory)));
    }
    match context_pool {
        Some(engine) => Ok(engine),
        None => {
            let share = match need {
                Need::Another => Share::admit(memory).ok_or(EngineError::Full)?,
                Need::Replacement => Share::replace(memory),
            };
            Engine::new(Arc::clone(limits), share)
        }
    }
}

/// What a world is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// For a new session, if the memory for sessions allows it.
    Another,
    /// In place of one that goes right after.
    Replacement,
}

/// Makes worlds until there are enough, one at a time.
async fn replace(limits: Arc<Limits>, memory: Arc<MemoryTotal>) {
    while SPARE.with_borrow(Vec::len) < SPARE_MAX {
        tokio::time::sleep(REPLACED_AFTER).await;
        // Without room for a spare one, the next session finds out for itself.
        let Some(share) = Share::admit(&memory) else { break };
        let Ok(engine) = Engine::new(Arc::clone(&limits), share) else { break };
        SPARE.with_borrow_mut(|context_pool| context_pool.push(engine));
    }
    REPLACING.set(false);
}

/// Drops them, at the end of a shard: a world must go before its thread's own variables do.
pub(crate) fn clear() {
    SPARE.take();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plenty() -> Arc<MemoryTotal> {
        MemoryTotal::new(usize::MAX)
    }

    fn context_pool() -> usize {
        SPARE.with_borrow(Vec::len)
    }

    #[tokio::test(start_paused = true)]
    async fn worlds_are_made_up_to_the_limit_and_taken_one_by_one() {
        let limits = Arc::new(Limits::default());
        replace(Arc::clone(&limits), plenty()).await;
        assert_eq!(context_pool(), SPARE_MAX);
        assert!(take(&limits, &plenty(), Need::Another).is_ok());
        assert_eq!(context_pool(), SPARE_MAX - 1);
        clear();
        assert!(take(&limits, &plenty(), Need::Another).is_ok());
        assert_eq!(context_pool(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_world_of_another_server_is_not_given_out() {
        let limits = Arc::new(Limits::default());
        replace(limits, plenty()).await;
        let smaller = Arc::new(Limits { memory_bytes_max: 8 << 20, ..Limits::default() });
        let engine = take(&smaller, &plenty(), Need::Another).unwrap();
        assert!(engine.is_of(&smaller));
        clear();
    }

    #[tokio::test(start_paused = true)]
    async fn without_room_only_a_replacement_is_made() {
        let limits = Arc::new(Limits::default());
        let none = MemoryTotal::new(0);
        replace(Arc::clone(&limits), Arc::clone(&none)).await;
        assert_eq!(context_pool(), 0);
        assert!(matches!(take(&limits, &none, Need::Another), Err(EngineError::Full)));
        let engine = take(&limits, &none, Need::Replacement).unwrap();
        assert!(none.drawn() > 0);
        drop(engine);
        assert_eq!(none.drawn(), 0);
    }
}

//! What a gateway remembers, in SQLite: sessions and their turns, facts per account, tokens used.
//!
//! One connection on a thread of its own, to which the chats send work: SQLite writes one at a time anyway, and the
//! disk stays away from the threads that run scripts. The statements are in `tables`, which knows no threads.

mod tables;

use std::path::Path;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::budget::Used;
use super::facts::Fact;
use super::route::SessionId;
use super::wire::Usage;
pub(crate) use tables::{Listed, Turn};

/// Work that waits for the disk.
/// More than any disk needs to be busy; whoever comes next waits in its own chat.
const JOBS_QUEUED_MAX: usize = 1024;

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("the store failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the store's thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
    #[error("the store is gone")]
    Gone,
}

/// What an agent is told beside the message.
#[derive(Debug, PartialEq)]
pub(crate) struct Context {
    /// The last turns, oldest first.
    pub(crate) turns: Vec<Turn>,
    /// The newest first.
    pub(crate) facts: Vec<Fact>,
    pub(crate) used: Used,
}

/// One call of a model.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    pub(crate) session: SessionId,
    pub(crate) model: String,
    pub(crate) usage: Usage,
    pub(crate) seconds: i64,
}

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle; the thread ends with the last one.
#[derive(Clone)]
pub(crate) struct Store {
    jobs_tx: mpsc::Sender<Job>,
}

impl Store {
    /// Opens a file, or makes a store that lives as long as its handles.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, StoreError> {
        let mut connection = match path {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        tables::prepare(&connection)?;
        let (jobs_tx, mut jobs_rx) = mpsc::channel::<Job>(JOBS_QUEUED_MAX);
        std::thread::Builder::new().name("exoclaw".to_owned()).spawn(move || {
            while let Some(job) = jobs_rx.blocking_recv() {
                job(&mut connection);
            }
        })?;
        Ok(Self { jobs_tx })
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done_tx, done_rx) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Work for a caller that stopped waiting is not begun.
            if !done_tx.is_closed() {
                let _ = done_tx.send(work(connection));
            }
        });
        self.jobs_tx.send(job).await.map_err(|_| StoreError::Gone)?;
        Ok(done_rx.await.map_err(|_| StoreError::Gone)??)
    }

    /// A message for the session came in.
    pub(crate) async fn touch(&self, session: SessionId, seconds: i64) -> Result<(), StoreError> {
        self.run(move |connection| tables::touch(connection, &session, seconds)).await
    }

    /// What the agent of a session is told, with at most `window` turns.
    pub(crate) async fn context(
        &self,
        session: SessionId,
        window: usize,
        seconds: i64,
    ) -> Result<Context, StoreError> {
        self.run(move |connection| {
            Ok(Context {
                turns: tables::turns(connection, &session, window)?,
                facts: tables::facts(connection, &session.channel, &session.account)?,
                used: tables::used(connection, Some(&session), seconds)?,
            })
        })
        .await
    }

    /// A message was answered; `facts` are what it stated.
    pub(crate) async fn keep_turn(
        &self,
        session: SessionId,
        turn: Turn,
        facts: Vec<Fact>,
    ) -> Result<(), StoreError> {
        self.run(move |connection| tables::keep_turn(connection, &session, &turn, &facts)).await
    }

    /// Puts down what a call of a model cost, without waiting for it: a chat that was broken off is counted as well.
    /// Whoever asks for the budget later finds it counted, because work is done in order.
    pub(crate) fn spend(&self, spent: Spent) {
        let session = spent.session.to_string();
        let job: Job = Box::new(move |connection| {
            if let Err(error) = tables::spend(connection, &spent) {
                tracing::error!(session = %spent.session, %error, "the usage of a model was not recorded");
            }
        });
        if self.jobs_tx.try_send(job).is_err() {
            tracing::error!(%session, "the usage of a model was not recorded: the store is busy");
        }
    }

    /// The last turns of a session, oldest first.
    pub(crate) async fn turns(&self, session: SessionId, limit: usize) -> Result<Vec<Turn>, StoreError> {
        self.run(move |connection| tables::turns(connection, &session, limit)).await
    }

    /// Forgets the turns of a session; says how many there were.
    pub(crate) async fn clear(&self, session: SessionId) -> Result<usize, StoreError> {
        self.run(move |connection| tables::clear(connection, &session)).await
    }

    /// How many sessions there are.
    pub(crate) async fn count_sessions(&self) -> Result<u64, StoreError> {
        self.run(|connection| tables::count_sessions(connection)).await
    }

    /// The sessions used last, the newest first.
    pub(crate) async fn sessions(&self, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.run(move |connection| tables::sessions(connection, limit)).await
    }

    /// What was used, in all and by a session.
    pub(crate) async fn used(&self, session: Option<SessionId>, seconds: i64) -> Result<Used, StoreError> {
        self.run(move |connection| tables::used(connection, session.as_ref(), seconds)).await
    }

    /// What is known of an account, the newest first.
    pub(crate) async fn facts(&self, channel: String, account: String) -> Result<Vec<Fact>, StoreError> {
        self.run(move |connection| tables::facts(connection, &channel, &account)).await
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent() -> Spent {
        let name = |text: &str| text.to_owned();
        let session =
            SessionId { agent: name("d"), channel: name("w"), account: name("a"), peer: name("main") };
        Spent { session, model: name("m"), usage: Usage { input_tokens: 1, output_tokens: 0 }, seconds: 0 }
    }

    /// A store whose thread waits until the sender is used.
    fn stopped() -> (Store, std::sync::mpsc::Sender<()>) {
        let store = Store::open(None).unwrap();
        let ((started_tx, started_rx), (go_on_tx, go_on_rx)) =
            (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let wait: Job = Box::new(move |_| {
            started_tx.send(()).unwrap();
            go_on_rx.recv().unwrap();
        });
        store.jobs_tx.try_send(wait).unwrap();
        started_rx.recv().unwrap();
        (store, go_on_tx)
    }

    async fn recorded(calls: usize) -> u64 {
        let (store, go_on_tx) = stopped();
        for _ in 0..calls {
            store.spend(spent());
        }
        go_on_tx.send(()).unwrap();
        store.used(None, 0).await.unwrap().daily
    }

    #[tokio::test]
    async fn so_much_work_may_wait_and_what_nobody_waits_for_is_dropped_beyond() {
        let most = u64::try_from(JOBS_QUEUED_MAX).unwrap();
        assert_eq!(recorded(JOBS_QUEUED_MAX).await, most);
        assert_eq!(recorded(JOBS_QUEUED_MAX + 1).await, most);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_opened_is_told() {
        let refused = Store::open(Some(Path::new("/nowhere/at/all/exoclaw.sqlite")));
        assert!(refused.is_err_and(|error| error.to_string().contains("unable to open")));
    }
}

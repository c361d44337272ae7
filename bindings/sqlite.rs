//! One SQLite connection on a thread of its own, to which others send work.
//!
//! SQLite writes one at a time anyway, and a thread of its own keeps the disk away from the threads that run scripts.
//! Work is done in the order in which it came, and nothing comes between the statements of one piece of it.

use std::path::Path;

use rusqlite::Connection;

use crate::concurrency::{JobThread, ResourceJob, ThreadStopped};

/// Work that waits for the disk.
/// More than any disk needs to be busy; whoever comes next waits where it is, within its own time limit, and what
/// nobody waits for is given back.
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

/// The store has too much to do, or is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store is busy")]
pub(super) struct Busy;

/// A handle to the thread, which ends with the last one.
#[derive(Debug, Clone)]
pub(super) struct Database {
    thread: JobThread<ResourceJob<Connection>>,
}

impl Database {
    /// Opens a file, or makes a database that lives as long as its handles. `prepare` makes its tables; `name` is the
    /// thread's.
    pub(super) fn open(
        name: &str,
        path: Option<&Path>,
        prepare: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Self, StoreError> {
        let connection = match path {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        // Readers of the file beside us (a backup) do not stop us then, and a commit is one write.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        prepare(&connection)?;
        Ok(Self { thread: JobThread::owning(name, JOBS_QUEUED_MAX, connection)? })
    }

    /// Has work done and waits for what comes of it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.thread.run(work).await.map_err(|ThreadStopped| StoreError::Gone)??)
    }

    /// Has work done that nobody waits for, if there is room for it now.
    pub(super) fn submit(&self, work: impl FnOnce(&mut Connection) + Send + 'static) -> Result<(), Busy> {
        self.thread.try_send(Box::new(work)).map_err(|_| Busy)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use futures_util::FutureExt as _;

    use super::*;

    fn open(path: Option<&Path>) -> Result<Database, StoreError> {
        Database::open("test", path, |connection| {
            connection.execute_batch("CREATE TABLE done (number INTEGER)")
        })
    }

    fn put(number: i64) -> impl FnOnce(&mut Connection) -> rusqlite::Result<usize> {
        move |connection| connection.execute("INSERT INTO done VALUES (?)", [number])
    }

    async fn done(database: &Database) -> i64 {
        database
            .run(|connection| connection.query_row("SELECT count(*) FROM done", [], |row| row.get(0)))
            .await
            .unwrap()
    }

    /// A database whose thread waits until the sender is used.
    fn stopped() -> (Database, Sender<()>) {
        let database = open(None).unwrap();
        let ((started_tx, started_rx), (go_on_tx, go_on_rx)) = (channel(), channel());
        let wait = move |_: &mut Connection| {
            started_tx.send(()).unwrap();
            go_on_rx.recv().unwrap();
        };
        database.submit(wait).unwrap();
        started_rx.recv().unwrap();
        (database, go_on_tx)
    }

    fn fill(database: &Database) {
        for number in 0..JOBS_QUEUED_MAX {
            let put = put(i64::try_from(number).unwrap());
            database.submit(move |connection| assert_eq!(put(connection), Ok(1))).unwrap();
        }
    }

    #[tokio::test]
    async fn so_much_work_may_wait_and_what_nobody_waits_for_is_given_back_beyond() {
        let (database, go_on_tx) = stopped();
        fill(&database);
        assert_eq!(database.submit(|_| ()), Err(Busy));
        go_on_tx.send(()).unwrap();
        assert_eq!(done(&database).await, i64::try_from(JOBS_QUEUED_MAX).unwrap());
        assert_eq!(database.submit(|_| ()), Ok(()));
    }

    #[tokio::test]
    async fn whoever_wants_an_answer_waits_for_room() {
        let (database, go_on_tx) = stopped();
        fill(&database);
        let mut late = Box::pin(database.run(put(-1)));
        assert!((&mut late).now_or_never().is_none());
        go_on_tx.send(()).unwrap();
        assert_eq!(late.await.unwrap(), 1);
        assert_eq!(done(&database).await, i64::try_from(JOBS_QUEUED_MAX).unwrap() + 1);
    }

    #[tokio::test]
    async fn work_for_a_caller_that_stopped_waiting_is_not_begun() {
        let (database, go_on_tx) = stopped();
        assert!(database.run(put(1)).now_or_never().is_none());
        go_on_tx.send(()).unwrap();
        assert_eq!(done(&database).await, 0);
    }

    #[tokio::test]
    async fn a_statement_that_fails_is_told_and_the_store_goes_on() {
        let database = open(None).unwrap();
        let failed = database.run(|connection| connection.execute_batch("SELECT nonsense")).await;
        assert!(failed.is_err_and(|error| error.to_string().starts_with("the store failed: ")));
        assert_eq!(database.run(put(1)).await.unwrap(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_told() {
        let refused = open(Some(Path::new("/nowhere/at/all/any.sqlite")));
        assert!(refused.is_err_and(|error| error.to_string().contains("unable to open")));
    }
}

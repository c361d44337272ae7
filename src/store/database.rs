//! One SQLite connection on its own thread, which runs the jobs that other tasks queue.
//!
//! SQLite allows one writer at a time anyway, and a separate thread keeps disk access off the
//! threads that run scripts. Jobs run in the order in which they were queued, and the statements of
//! one job are never interleaved with those of another.

use std::path::Path;

use rusqlite::Connection;

use crate::concurrency::{JobThread, ResourceJob, ThreadStopped};

/// Longest queue of jobs for the thread, enough to keep any disk busy.
/// When it is full, [`Database::run`] waits for room within the caller's own time limit, and
/// [`Database::submit`] fails.
const JOBS_QUEUED_MAX: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("store failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("cannot start the store's thread: {0}")]
    Thread(#[from] std::io::Error),
    #[error("store is closed")]
    Closed,
}

/// A job was not queued: the queue is full, or the thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("store is busy")]
pub(crate) struct QueueFull;

/// A handle to the thread, which ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    thread: JobThread<ResourceJob<Connection>>,
}

impl Database {
    /// Opens the file at `path`, or an in-memory database that lives as long as its handles.
    /// `prepare` creates the tables; `name` becomes the name of the thread.
    pub(crate) fn open(
        name: &str,
        path: Option<&Path>,
        prepare: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Self, StoreError> {
        let connection = match path {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        // With a write-ahead log, other readers of the file (a backup) do not block us, and a
        // commit is one write.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        prepare(&connection)?;
        Ok(Self { thread: JobThread::owning(name, JOBS_QUEUED_MAX, connection)? })
    }

    /// Runs a job on the thread and waits for its result. If the future is dropped before the job
    /// starts, the job is skipped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.thread.run(work).await.map_err(|ThreadStopped| StoreError::Closed)??)
    }

    /// Queues a job without waiting for its result; fails if there is no room for it now.
    pub(crate) fn submit(
        &self,
        work: impl FnOnce(&mut Connection) + Send + 'static,
    ) -> Result<(), QueueFull> {
        self.thread.try_send(Box::new(work)).map_err(|_| QueueFull)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use futures_util::FutureExt as _;

    use super::*;

    fn open(path: Option<&Path>) -> Result<Database, StoreError> {
        Database::open("test", path, |connection| {
            connection.execute_batch("CREATE TABLE numbers (number INTEGER)")
        })
    }

    fn insert(number: i64) -> impl FnOnce(&mut Connection) -> rusqlite::Result<usize> {
        move |connection| connection.execute("INSERT INTO numbers VALUES (?)", [number])
    }

    async fn count_rows(database: &Database) -> i64 {
        database
            .run(|connection| connection.query_row("SELECT count(*) FROM numbers", [], |row| row.get(0)))
            .await
            .unwrap()
    }

    /// Opens a database whose thread is blocked until something is sent on the returned sender.
    fn open_blocked() -> (Database, Sender<()>) {
        let database = open(None).unwrap();
        let ((started_tx, started_rx), (resume_tx, resume_rx)) = (channel(), channel());
        let block = move |_: &mut Connection| {
            started_tx.send(()).unwrap();
            resume_rx.recv().unwrap();
        };
        database.submit(block).unwrap();
        started_rx.recv().unwrap();
        (database, resume_tx)
    }

    fn fill_queue(database: &Database) {
        for number in 0..JOBS_QUEUED_MAX {
            let insert = insert(i64::try_from(number).unwrap());
            database.submit(move |connection| assert_eq!(insert(connection), Ok(1))).unwrap();
        }
    }

    #[tokio::test]
    async fn submit_with_full_queue_fails() {
        let (database, resume_tx) = open_blocked();
        fill_queue(&database);
        assert_eq!(database.submit(|_| ()), Err(QueueFull));
        resume_tx.send(()).unwrap();
        assert_eq!(count_rows(&database).await, i64::try_from(JOBS_QUEUED_MAX).unwrap());
        assert_eq!(database.submit(|_| ()), Ok(()));
    }

    #[tokio::test]
    async fn run_with_full_queue_waits_for_room() {
        let (database, resume_tx) = open_blocked();
        fill_queue(&database);
        let mut late = Box::pin(database.run(insert(-1)));
        assert!((&mut late).now_or_never().is_none());
        resume_tx.send(()).unwrap();
        assert_eq!(late.await.unwrap(), 1);
        assert_eq!(count_rows(&database).await, i64::try_from(JOBS_QUEUED_MAX).unwrap() + 1);
    }

    #[tokio::test]
    async fn job_of_dropped_caller_is_skipped() {
        let (database, resume_tx) = open_blocked();
        assert!(database.run(insert(1)).now_or_never().is_none());
        resume_tx.send(()).unwrap();
        assert_eq!(count_rows(&database).await, 0);
    }

    #[tokio::test]
    async fn failed_statement_is_reported_and_store_stays_usable() {
        let database = open(None).unwrap();
        let result = database.run(|connection| connection.execute_batch("SELECT nonsense")).await;
        assert!(result.is_err_and(|error| error.to_string().starts_with("store failed: ")));
        assert_eq!(database.run(insert(1)).await.unwrap(), 1);
    }

    #[test]
    fn open_of_missing_folder_reports_the_error() {
        let result = open(Some(Path::new("/nowhere/at/all/any.sqlite")));
        assert!(result.is_err_and(|error| error.to_string().contains("unable to open")));
    }
}

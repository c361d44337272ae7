//! A table that answers late, or not at all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use super::*;
use crate::sessions::table::{
    MemoryTable, Release, Released, SessionClaim, SessionRecord, TableError, TableFuture,
};

/// A table in memory whose operations take a while, and fail while `is_down` is set.
#[derive(Default)]
struct RemoteTable {
    table: MemoryTable,
    is_down: AtomicBool,
}

impl RemoteTable {
    /// Runs an operation after other tasks have run.
    fn later<'a, T: Send + 'a>(
        &'a self,
        operation: impl FnOnce(&'a MemoryTable) -> TableFuture<'a, T> + Send + 'a,
    ) -> TableFuture<'a, T> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.is_down.load(Ordering::Relaxed) {
                return Err(TableError("connection refused".to_owned()));
            }
            operation(&self.table).await
        })
    }
}

impl SessionTable for Arc<RemoteTable> {
    fn create(&self, record: SessionRecord) -> TableFuture<'_, ()> {
        self.later(|table| table.create(record))
    }

    fn find<'a>(&'a self, id: &'a str) -> TableFuture<'a, Option<SessionRecord>> {
        self.later(move |table| table.find(id))
    }

    fn claim<'a>(&'a self, claim: SessionClaim<'a>) -> TableFuture<'a, Option<u64>> {
        self.later(move |table| table.claim(claim))
    }

    fn confirm<'a>(&'a self, id: &'a str, connection: u64, ran_eval: bool) -> TableFuture<'a, ()> {
        self.later(move |table| table.confirm(id, connection, ran_eval))
    }

    fn release<'a>(&'a self, release: Release<'a>) -> TableFuture<'a, Released> {
        self.later(move |table| table.release(release))
    }

    fn evict<'a>(
        &'a self,
        owner: &'a str,
        principal: &'a str,
        detached_max: usize,
    ) -> TableFuture<'a, Option<Arc<str>>> {
        self.later(move |table| table.evict(owner, principal, detached_max))
    }

    fn expire<'a>(&'a self, owner: &'a str, now: SystemTime) -> TableFuture<'a, Vec<Arc<str>>> {
        self.later(move |table| table.expire(owner, now))
    }

    fn remove<'a>(&'a self, ids: &'a [Arc<str>]) -> TableFuture<'a, ()> {
        self.later(move |table| table.remove(ids))
    }

    fn list<'a>(&'a self, principal: Option<&'a str>, max: usize) -> TableFuture<'a, Vec<SessionRecord>> {
        self.later(move |table| table.list(principal, max))
    }
}

#[tokio::test(flavor = "local")]
async fn slow_table_passes_the_suite() {
    crate::sessions::table::table_suite(async || Arc::<RemoteTable>::default()).await;
}

#[tokio::test(flavor = "local")]
async fn session_is_kept_if_its_eval_was_not_confirmed() {
    let table = Arc::<RemoteTable>::default();
    let (directory, ann) = (directory_on(Arc::clone(&table)), principal("ann"));
    let mut client = Client::open(&directory, &ann).await;
    table.is_down.store(true, Ordering::Relaxed);
    client.eval(&directory, "1").await;
    table.is_down.store(false, Ordering::Relaxed);
    assert!(!table.find(client.id()).await.unwrap().unwrap().ran_eval);
    directory.release(&client.lease).await;
    let mut resumed = Client::connect(&directory, &ann, Some(client.ticket())).await.unwrap();
    assert_eq!(resumed.eval(&directory, "2").await, "2");
}

#[tokio::test(flavor = "local")]
async fn late_confirmation_voids_the_token_before() {
    let (directory, ann) = (directory_on(Arc::<RemoteTable>::default()), principal("ann"));
    let first = Client::open(&directory, &ann).await;
    let mut second = Client::connect(&directory, &ann, Some(first.ticket())).await.unwrap();
    second.eval(&directory, "1").await;
    assert_eq!(kind(Client::connect(&directory, &ann, Some(first.ticket())).await), "SessionRefused");
}

#[tokio::test(flavor = "local")]
async fn table_that_fails_leaves_no_session_behind() {
    let table = Arc::<RemoteTable>::default();
    let (directory, ann) = (directory_on(Arc::clone(&table)), principal("ann"));
    let mut client = Client::open(&directory, &ann).await;
    client.eval(&directory, "1").await;
    table.is_down.store(true, Ordering::Relaxed);
    assert_eq!(kind(Client::connect(&directory, &ann, None).await), "Busy");
    assert_eq!(kind(Client::connect(&directory, &ann, Some(client.ticket())).await), "Busy");
    assert_eq!(directory.len(), 1);
    // What runs does not need the table.
    assert_eq!(client.eval(&directory, "2").await, "2");
    assert!(directory.is_idle().await && directory.list(usize::MAX).await.is_empty());
    directory.release(&client.lease).await;
    directory.expire().await;
    assert!(directory.len() == 0);
    table.is_down.store(false, Ordering::Relaxed);
    assert_eq!(recorded(&directory).await, [client.id()]);
    directory.expire().await;
    assert!(recorded(&directory).await.is_empty());
}

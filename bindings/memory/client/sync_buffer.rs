//! Changes that a watching script has not received yet. Only the latest version of each document is
//! kept, so a slow script receives fewer syncs, not longer ones.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::codec::{Data, object};

#[derive(Debug, Clone, PartialEq)]
enum DocumentChange {
    Upsert(Data),
    Remove(Data),
}

#[derive(Debug, Default)]
struct PendingSync {
    /// By id and scope.
    changes: BTreeMap<(String, String), DocumentChange>,
    to_seq: u64,
}

/// Carries syncs from the connection to the task that calls the script.
#[derive(Debug, Default)]
pub(in super::super) struct SyncBuffer {
    pending: Mutex<Option<PendingSync>>,
    added: Notify,
}

impl SyncBuffer {
    pub(super) fn add(&self, upserts: Vec<Data>, removes: Vec<Data>, to_seq: u64) {
        let mut pending = self.pending.lock();
        let pending = pending.get_or_insert_default();
        pending.to_seq = pending.to_seq.max(to_seq);
        for upsert in upserts {
            pending.changes.insert(document_key(&upsert), DocumentChange::Upsert(upsert));
        }
        for remove in removes {
            pending.changes.insert(document_key(&remove), DocumentChange::Remove(remove));
        }
        self.added.notify_one();
    }

    /// Waits until there are changes and removes all of them.
    pub(in super::super) async fn take(&self) -> Data {
        loop {
            if let Some(pending) = self.pending.lock().take() {
                return build_sync(pending);
            }
            self.added.notified().await;
        }
    }
}

fn build_sync(pending: PendingSync) -> Data {
    let (mut upserts, mut removes) = (Vec::new(), Vec::new());
    for change in pending.changes.into_values() {
        match change {
            DocumentChange::Upsert(upsert) => upserts.push(upsert),
            DocumentChange::Remove(remove) => removes.push(remove),
        }
    }
    object([
        ("toSeq", pending.to_seq.into()),
        ("upserts", Data::List(upserts)),
        ("removes", Data::List(removes)),
    ])
}

/// The id and scope in an upsert or a remove.
pub(super) fn document_key(data: &Data) -> (String, String) {
    let text = |key: &str| data.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
    (text("id"), text("scope"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn upsert(id: &str, seq: u64) -> Data {
        object([("id", id.into()), ("seq", seq.into())])
    }

    #[tokio::test]
    async fn slow_reader_gets_only_the_latest_of_each_document() {
        let buffer = SyncBuffer::default();
        buffer.add(vec![upsert("a", 1), upsert("b", 1)], vec![], 1);
        buffer.add(vec![upsert("a", 2)], vec![object([("id", "b".into())])], 2);
        let taken = buffer.take().await.to_plain();
        assert_eq!(taken, json!({"removes": [{"id": "b"}], "toSeq": 2, "upserts": [{"id": "a", "seq": 2}]}));
        buffer.add(vec![upsert("a", 3)], vec![], 3);
        assert_eq!(buffer.take().await.to_plain()["upserts"][0]["seq"], json!(3));
    }
}

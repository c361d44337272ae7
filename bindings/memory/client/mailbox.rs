//! What a watching script has yet to be told. A slow one is told less often, not more at once: of each document only
//! the latest version waits.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::codec::{Data, object};

/// Documents by id and scope, with what is to be told of them.
type Waiting = BTreeMap<(String, String), News>;

#[derive(Debug, Clone, PartialEq)]
enum News {
    Upsert(Data),
    Remove(Data),
}

#[derive(Debug, Default)]
struct Pending {
    documents: Waiting,
    to_seq: u64,
}

/// Syncs from the connection to the task that calls the script.
#[derive(Debug, Default)]
pub(in super::super) struct Mailbox {
    pending: Mutex<Option<Pending>>,
    arrived: Notify,
}

impl Mailbox {
    /// Adds what changed.
    pub(super) fn put(&self, upserts: Vec<Data>, removes: Vec<Data>, to_seq: u64) {
        let mut pending = self.pending.lock();
        let pending = pending.get_or_insert_default();
        pending.to_seq = pending.to_seq.max(to_seq);
        for upsert in upserts {
            pending.documents.insert(identity(&upsert), News::Upsert(upsert));
        }
        for remove in removes {
            pending.documents.insert(identity(&remove), News::Remove(remove));
        }
        self.arrived.notify_one();
    }

    /// Waits for what changed, and takes all of it.
    pub(in super::super) async fn take(&self) -> Data {
        loop {
            if let Some(pending) = self.pending.lock().take() {
                return sync(pending);
            }
            self.arrived.notified().await;
        }
    }
}

fn sync(pending: Pending) -> Data {
    let (mut upserts, mut removes) = (Vec::new(), Vec::new());
    for news in pending.documents.into_values() {
        match news {
            News::Upsert(upsert) => upserts.push(upsert),
            News::Remove(remove) => removes.push(remove),
        }
    }
    object([
        ("toSeq", pending.to_seq.into()),
        ("upserts", Data::List(upserts)),
        ("removes", Data::List(removes)),
    ])
}

/// What a document is known by.
pub(super) fn identity(data: &Data) -> (String, String) {
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
    async fn a_slow_reader_gets_the_latest_of_each_document_once() {
        let mailbox = Mailbox::default();
        mailbox.put(vec![upsert("a", 1), upsert("b", 1)], vec![], 1);
        mailbox.put(vec![upsert("a", 2)], vec![object([("id", "b".into())])], 2);
        let taken = mailbox.take().await.to_plain();
        assert_eq!(taken, json!({"removes": [{"id": "b"}], "toSeq": 2, "upserts": [{"id": "a", "seq": 2}]}));
        mailbox.put(vec![upsert("a", 3)], vec![], 3);
        assert_eq!(mailbox.take().await.to_plain()["upserts"][0]["seq"], json!(3));
    }
}

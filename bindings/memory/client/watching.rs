//! What a script watches, and which versions of it the script knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::codec::Data;
use super::ask::Reply;
use super::mailbox::{Mailbox, identity};

#[derive(Debug)]
pub(super) struct Watching {
    /// As the server is told.
    pub(super) watches: Data,
    mailbox: Arc<Mailbox>,
    /// Who waits for the first sync.
    pub(super) first_tx: Option<Reply>,
    /// The versions that the script knows: what it knows is not told again, whatever the server sends.
    known: BTreeMap<(String, String), (u64, bool)>,
}

impl Watching {
    pub(super) fn new(watches: Data, mailbox: Arc<Mailbox>, first_tx: Reply) -> Self {
        Self { watches, mailbox, first_tx: Some(first_tx), known: BTreeMap::new() }
    }

    /// Whether nobody reads the mailbox any more: the script let go while the server could not be told.
    pub(super) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.mailbox) == 1
    }

    /// Notes what the server tells; what the script does not know yet is given back.
    pub(super) fn note(&mut self, sync: &Data) -> Vec<Data> {
        let mut news = Vec::new();
        for upsert in list(sync, "upserts") {
            let seq = upsert.get("seq").and_then(Data::as_u64).unwrap_or(0);
            let version = (seq, upsert.get("deleted").and_then(Data::as_bool).unwrap_or(false));
            if self.known.insert(identity(upsert), version) != Some(version) {
                news.push(upsert.clone());
            }
        }
        for remove in list(sync, "removes") {
            self.known.remove(&identity(remove));
        }
        news
    }

    /// Passes on to the script what is new to it.
    pub(super) fn tell(&mut self, sync: &Data) {
        let (news, removes) = (self.note(sync), list(sync, "removes").to_vec());
        if !news.is_empty() || !removes.is_empty() {
            let to_seq = sync.get("toSeq").and_then(Data::as_u64).unwrap_or(0);
            self.mailbox.put(news, removes, to_seq);
        }
    }

    /// After a new start of the watch: what is not in it any more is not known any more.
    pub(super) fn forget_missing(&mut self, sync: &Data) {
        let present: BTreeSet<_> = list(sync, "upserts").iter().map(identity).collect();
        self.known.retain(|known, _| present.contains(known));
    }
}

fn list<'a>(sync: &'a Data, key: &str) -> &'a [Data] {
    sync.get(key).and_then(Data::as_list).unwrap_or_default()
}

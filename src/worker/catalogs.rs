//! Catalogs of the server are sent to a worker once, and named by their version from then on.
//!
//! A catalog may have hundreds of schemas, and every handshake has one. Both sides keep the last few that were sent, in
//! the order in which they were: so the sender knows what the receiver has.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::session::boundary::{FromSession, HandlerCall, HandlerTarget, ToSession};

/// Catalogs that are kept. Sessions take a new version up within their next eval, so two or three are in use.
const CATALOGS_KEPT_MAX: usize = 4;

/// The catalogs that both sides have.
#[derive(Debug, Default)]
pub(crate) struct SharedCatalogs {
    kept: VecDeque<Arc<Catalog>>,
}

impl SharedCatalogs {
    /// Keeps a catalog, in the place of the oldest one if need be.
    pub(crate) fn insert(&mut self, catalog: Arc<Catalog>) {
        if self.kept.len() == CATALOGS_KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(catalog);
    }

    /// The catalog of that version.
    pub(crate) fn get(&self, version: u64) -> Option<&Arc<Catalog>> {
        self.kept.iter().find(|catalog| catalog.version() == version)
    }

    /// Puts the name of a catalog in its place, before it is sent. Returns the catalog if it has to be sent first.
    pub(crate) fn abbreviate(&mut self, place: &mut Arc<Catalog>) -> Option<Arc<Catalog>> {
        let catalog = std::mem::replace(place, Arc::new(Catalog::named(place.version())));
        let is_known = self.get(catalog.version()).is_some();
        (!is_known).then(|| {
            self.insert(Arc::clone(&catalog));
            catalog
        })
    }

    /// Puts the catalog in the place of its name; `false` if it is not kept.
    pub(crate) fn restore(&self, place: &mut Arc<Catalog>) -> bool {
        let found = self.get(place.version()).cloned();
        let is_found = found.is_some();
        if let Some(catalog) = found {
            *place = catalog;
        }
        is_found
    }
}

/// Where a message to a session has a catalog of the server.
pub(crate) fn in_message(message: &mut ToSession) -> Option<&mut Arc<Catalog>> {
    match message {
        ToSession::Attach { listed: catalog, .. } | ToSession::Catalog(catalog) => Some(catalog),
        ToSession::Stalled { .. }
        | ToSession::Detach { .. }
        | ToSession::Client { .. }
        | ToSession::HandlerDone { .. }
        | ToSession::HandlerInvoke { .. }
        | ToSession::HandlerCancel { .. }
        | ToSession::HandlerRelease { .. }
        | ToSession::CpuQuota { .. }
        | ToSession::Inspect { .. }
        | ToSession::Forked { .. }
        | ToSession::Suspend
        | ToSession::End(_) => None,
    }
}

/// Where a message of a session has catalogs: the server's, and that of its client.
pub(crate) fn in_description(message: &mut FromSession) -> Option<(&mut Arc<Catalog>, &mut Arc<Catalog>)> {
    match message {
        FromSession::CallHandler(HandlerCall {
            target: HandlerTarget::Describe { server, client, .. },
            ..
        }) => Some((server, client)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_is_sent_once_and_restored() {
        let (mut sender, mut receiver) = (SharedCatalogs::default(), SharedCatalogs::default());
        let catalog = Arc::new(Catalog::named(7));
        let mut place = Arc::clone(&catalog);
        receiver.insert(sender.abbreviate(&mut place).unwrap());
        assert!(!Arc::ptr_eq(&place, &catalog));
        assert!(receiver.restore(&mut place) && Arc::ptr_eq(&place, &catalog));
        assert!(sender.abbreviate(&mut place).is_none(), "the receiver has it");
    }

    #[test]
    fn forgotten_catalog_is_sent_again() {
        let mut sender = SharedCatalogs::default();
        for version in 1..=CATALOGS_KEPT_MAX as u64 + 1 {
            assert!(sender.abbreviate(&mut Arc::new(Catalog::named(version))).is_some());
        }
        assert!(sender.abbreviate(&mut Arc::new(Catalog::named(2))).is_none());
        assert!(sender.abbreviate(&mut Arc::new(Catalog::named(1))).is_some());
        assert!(!sender.restore(&mut Arc::new(Catalog::named(99))));
    }
}

//! Which bindings the scripts of a session see, and how its client learns that the server's have changed.
//!
//! Scripts keep the bindings that they began with until the next eval. A client that declares `bindings.changed` is called
//! as soon as there is a new version; while it has not answered, later versions are collected into the next call.

use std::sync::Arc;

use serde_json::json;

use super::super::guest::Owner;
use super::client_calls::Waiter;
use super::describe::VisibleBindings;
use super::turn::Action;
use super::{Ready, Session};
use crate::catalog::Catalog;
use crate::catalog::changes::CatalogChanges;
use crate::protocol::methods::{Payload, Target};
use crate::protocol::names::{BINDINGS_CHANGED, CONSOLE_WRITE};

impl Session {
    /// Sets the client and the bindings of the script's context, before anything else runs there.
    pub(crate) fn introduce_client(&mut self) {
        if let Some(live) = &self.live {
            let guest = &self.engine.guest;
            guest.attachment.set(live.number);
            guest.schema_budget.replace(live.schema_budget.clone());
            guest.console.borrow_mut().set_streaming(live.catalog.contains(CONSOLE_WRITE));
        }
        let client = self.live.as_ref().map(|live| Arc::clone(&live.catalog)).unwrap_or_default();
        self.engine.guest.client_catalog.replace(client);
        let ready = self.set_bindings();
        self.ready.push_front(ready);
    }

    /// What has to run before the next eval if the server's bindings have changed.
    pub(crate) fn bindings_for_eval(&mut self) -> Option<Ready> {
        self.refresh_catalog();
        let known = self.engine.guest.server_catalog.borrow().version();
        (known != self.catalog.version()).then(|| self.set_bindings())
    }

    /// The bindings that the next eval of this session sees.
    pub(crate) fn visible_bindings(&mut self) -> VisibleBindings {
        self.refresh_catalog();
        let client = Arc::clone(&self.engine.guest.client_catalog.borrow());
        VisibleBindings { server: Arc::clone(&self.catalog), client }
    }

    fn set_bindings(&mut self) -> Ready {
        let visible = self.visible_bindings();
        let names = visible.iter().map(|entry| entry.name().to_owned()).collect();
        self.engine.guest.server_catalog.replace(visible.server);
        Ready { owner: Owner::Nobody, depth: 0, action: Action::Bindings(names) }
    }

    /// Takes the latest version in, if there is one. The handlers live as long as the session, so they still publish.
    fn refresh_catalog(&mut self) {
        if self.catalog_rx.has_changed().unwrap_or(false) {
            self.accept_catalog();
        }
    }

    /// Takes the latest version in.
    pub(crate) fn accept_catalog(&mut self) {
        self.catalog = Arc::clone(&self.catalog_rx.borrow_and_update());
    }

    /// Whether the client is to be called when the bindings change.
    pub(crate) fn awaits_changes(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.wants_changes && !live.is_announcing)
    }

    /// Calls `bindings.changed` of a client that [awaits changes](Self::awaits_changes) and does not know the latest version.
    pub(crate) async fn announce_changes(&mut self) {
        self.refresh_catalog();
        let Some(live) = &mut self.live else { return };
        if live.listed.version() == self.catalog.version() {
            return;
        }
        let changes = CatalogChanges::between(&live.listed, &self.catalog, live.catalog.names());
        live.listed = Arc::clone(&self.catalog);
        if changes.is_empty() {
            return;
        }
        live.is_announcing = true;
        let (target, input) = (Target::Binding(BINDINGS_CHANGED.to_owned()), json!(changes));
        self.call_client(Waiter::Announcement, target, Payload::Input(input), 0).await;
    }

    /// The client answered `bindings.changed`, or will not any more.
    pub(crate) fn finish_announcement(&mut self) {
        if let Some(live) = &mut self.live {
            live.is_announcing = false;
        }
    }
}

/// Whether a client declares that it wants to know of changed bindings.
pub(crate) fn wants_changes(client: &Catalog) -> bool {
    client.contains(BINDINGS_CHANGED)
}

//! Which bindings the scripts of a session see, and how its client learns that the server's have changed.
//!
//! Scripts keep the bindings that they began with until the next eval. A client that declares `bindings.changed` is called
//! as soon as there is a new version; while it has not answered, later versions are collected into the next call.

use std::sync::Arc;

use serde_json::json;

use super::tables::Waiter;
use super::{ChargedTo, Session, Turn, Work};
use crate::catalog::Catalog;
use crate::catalog::changes::CatalogChanges;
use crate::protocol::methods::{Payload, Target};
use crate::protocol::names::BINDINGS_CHANGED;

impl Session {
    /// The script gets to know the bindings of a new client before anything else runs.
    pub(super) fn introduce_client(&mut self) {
        if self.state.client.is_some() {
            let streams = self.state.streams_console();
            self.state.console.set_streaming(streams);
        }
        self.take_next_catalog();
        self.state.ready.push_front(bindings_turn());
    }

    /// The server's bindings changed: scripts see it from the next eval on, and a client that wants to know is called.
    pub(super) fn change_catalog(&mut self, catalog: Arc<Catalog>) {
        self.offer_catalog(catalog);
        self.announce_changes();
    }

    pub(super) fn offer_catalog(&mut self, catalog: Arc<Catalog>) {
        if catalog.version() > self.latest_catalog().version() {
            self.state.next_catalog = Some(catalog);
        }
    }

    /// The server's bindings that the next eval sees.
    pub(super) fn latest_catalog(&self) -> &Arc<Catalog> {
        self.state.next_catalog.as_ref().unwrap_or(&self.state.catalog)
    }

    fn take_next_catalog(&mut self) -> bool {
        let Some(catalog) = self.state.next_catalog.take() else { return false };
        self.state.catalog = catalog;
        true
    }

    /// What has to run before the next eval if the server's bindings have changed.
    pub(super) fn bindings_for_eval(&mut self) -> Option<Turn> {
        (self.state.evals.queued() > 0 && self.take_next_catalog()).then(bindings_turn)
    }

    /// Calls `bindings.changed` of a client that declares it and does not know the latest version.
    pub(super) fn announce_changes(&mut self) {
        let latest = Arc::clone(self.latest_catalog());
        let Some(client) = &mut self.state.client else { return };
        let is_announced = client.listed.version() >= latest.version() || client.is_announcing;
        if is_announced || !client.bindings.contains(BINDINGS_CHANGED) {
            return;
        }
        let changes = CatalogChanges::between(&client.listed, &latest, client.bindings.names());
        client.listed = latest;
        if changes.is_empty() {
            return;
        }
        client.is_announcing = true;
        let (target, input) = (Target::Binding(BINDINGS_CHANGED.to_owned()), json!(changes));
        self.call_client(Waiter::Announcement, target, Payload::Input(input), 0);
    }

    /// The client answered `bindings.changed`, or will not any more.
    pub(super) fn finish_announcement(&mut self) {
        if let Some(client) = &mut self.state.client {
            client.is_announcing = false;
        }
        self.announce_changes();
    }

    /// The bindings of the client; when it is gone their names stay until the next one comes.
    fn client_bindings(&self) -> &Arc<Catalog> {
        self.state.client.as_ref().map_or(&self.state.last_client_names, |client| &client.bindings)
    }

    /// The number of a binding of the server that scripts see under that name; the client's bindings come first.
    pub(crate) fn server_binding(&self, name: &str) -> Option<u32> {
        match self.client_bindings().names().contains(name) {
            true => None,
            false => self.state.catalog.number_of(name),
        }
    }

    /// The number of the server's binding that an invoke from outside reaches under that name.
    pub(super) fn invoked_binding(&self, name: &str) -> Option<u32> {
        match self.client_bindings().names().conflict(name) {
            Some(_) => None,
            None => self.latest_catalog().number_of(name),
        }
    }

    /// Whether a binding has that name, or a namespace that begins with it.
    pub(crate) fn is_binding(&self, name: &str) -> bool {
        self.state.catalog.names().has_name_or_prefix(name)
            || self.client_bindings().names().has_name_or_prefix(name)
    }

    /// The names of all bindings that scripts see: the server's that no name of the client hides, then the client's.
    pub(crate) fn visible_names(&self) -> Vec<String> {
        let client = self.client_bindings();
        let is_visible = |name: &&str| client.names().conflict(name).is_none();
        let server = self.state.catalog.iter().map(|entry| entry.name()).filter(is_visible);
        let own = client.callable_by_scripts().map(|entry| entry.name());
        server.chain(own).map(str::to_owned).collect()
    }
}

fn bindings_turn() -> Turn {
    Turn { charged_to: ChargedTo::Background, depth: 0, work: Work::Bindings }
}

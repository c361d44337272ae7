//! Connections come and go; the session stays.

use std::sync::Arc;

use super::super::guest::{Holder, Owner};
use super::inbox::{Attachment, EventSender};
use super::turn::Action;
use super::{Ready, Session};
use crate::catalog::Catalog;
use crate::protocol::boundary::{Closing, SessionEvent};
use crate::protocol::names::CONSOLE_WRITE;
use crate::schema::SchemaBudget;

/// The connection that holds the session.
pub(crate) struct Live {
    pub(crate) number: u64,
    pub(crate) events_tx: EventSender,
    /// What the client declared.
    pub(crate) catalog: Arc<Catalog>,
    /// The server's bindings as the client knows them.
    pub(crate) listed: Arc<Catalog>,
    pub(crate) schema_budget: SchemaBudget,
}

impl Session {
    /// A connection takes the session, from another one if need be.
    pub(crate) async fn attach(&mut self, attachment: Attachment) {
        if let Some(live) = &self.live {
            let number = live.number;
            self.emit(SessionEvent::Close(Closing::TakenOver)).await;
            // A connection that is gone already was detached when the event could not be delivered.
            self.detach(number).await;
        }
        self.departing = None;
        let Attachment { number, events_tx, catalog, listed, schema_budget } = attachment;
        self.live = Some(Live { number, events_tx, catalog, listed, schema_budget });
        self.introduce_client();
        self.send_waiting_calls().await;
    }

    /// What the client's schemas take.
    pub(crate) fn schema_bytes(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.schema_budget.used() as u64)
    }

    /// The connection of that number is gone, if it is still the one.
    pub(crate) async fn detach(&mut self, number: u64) {
        self.departing.take_if(|departing| *departing == number);
        if self.live.as_ref().is_some_and(|live| live.number == number) {
            self.detach_now(number);
        }
    }

    /// What belongs to a connection ends with it.
    pub(crate) fn detach_now(&mut self, number: u64) {
        debug_assert!(self.live.as_ref().is_some_and(|live| live.number == number));
        self.live = None;
        self.engine.guest.console.borrow_mut().set_streaming(false);
        self.fail_client_calls();
        let held = self.engine.guest.functions.borrow_mut().take_all_of(Holder::Client);
        self.forget(held);
        self.engine.guest.drop_client_schemas();
    }

    /// Tells the world of the script who its client is and which bindings there are now, before anything else runs.
    pub(crate) fn introduce_client(&mut self) {
        if let Some(live) = &self.live {
            let guest = &self.engine.guest;
            guest.attachment.set(live.number);
            guest.schema_budget.replace(live.schema_budget.clone());
            guest.console.borrow_mut().set_streaming(live.catalog.contains(CONSOLE_WRITE));
        }
        let client = self.live.as_ref().map(|live| Arc::clone(&live.catalog)).unwrap_or_default();
        let server = self.parts.handlers.catalog();
        self.engine.guest.client_catalog.replace(client);
        self.engine.guest.server_catalog.replace(server);
        let names = self.visible_bindings().iter().map(|entry| entry.name().to_owned()).collect();
        let action = Action::Bindings(names);
        self.ready.push_front(Ready { owner: Owner::Nobody, depth: 0, action });
    }
}

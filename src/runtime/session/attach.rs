//! Connections come and go; the session stays.

use std::sync::Arc;

use super::super::guest::Holder;
use super::Session;
use super::bindings::wants_changes;
use super::inbox::{Attachment, EventSender};
use crate::catalog::Catalog;
use crate::protocol::boundary::{Closing, SessionEvent};
use crate::schema::SchemaBudget;

/// The connection that holds the session.
pub(crate) struct Live {
    pub(crate) number: u64,
    pub(crate) events_tx: EventSender,
    /// What the client declared.
    pub(crate) catalog: Arc<Catalog>,
    /// The server's bindings as the client knows them.
    pub(crate) listed: Arc<Catalog>,
    /// Whether the client is called when the server's bindings change.
    pub(crate) wants_changes: bool,
    /// Whether it has not answered such a call yet.
    pub(crate) is_announcing: bool,
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
        let wants_changes = wants_changes(&catalog);
        let is_announcing = false;
        self.live =
            Some(Live { number, events_tx, catalog, listed, wants_changes, is_announcing, schema_budget });
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
}

//! Connections come and go; the session stays.

use std::collections::HashMap;

use super::super::guest::{ChargedTo, RefHolder};
use super::inbox::{Attachment, ClientBinding, EventSender};
use super::turn::Action;
use super::{Ready, Session};
use crate::protocol::boundary::{Closing, SessionEvent};
use crate::protocol::names::is_server_called;
use crate::schema::FunctionParam;
use crate::schema::SchemaBudget;

/// The connection that holds the session.
pub(crate) struct Live {
    pub(crate) number: u64,
    pub(crate) events_tx: EventSender,
    pub(crate) bindings: HashMap<String, ClientBinding>,
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
        let Attachment { number, events_tx, bindings, schema_budget } = attachment;
        let bindings: HashMap<String, ClientBinding> =
            bindings.into_iter().map(|binding| (binding.declaration.name.clone(), binding)).collect();
        self.live = Some(Live { number, events_tx, bindings, schema_budget });
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
        let held = self.engine.guest.functions.borrow_mut().take_all_of(RefHolder::Client);
        self.forget(held);
        self.engine.guest.drop_client_schemas();
    }

    /// Tells the world of the script who its client is and which bindings there are now, before anything else runs.
    pub(crate) fn introduce_client(&mut self) {
        if let Some(live) = &self.live {
            let guest = &self.engine.guest;
            guest.attachment.set(live.number);
            guest.schema_budget.replace(live.schema_budget.clone());
            guest.console.borrow_mut().set_streaming(live.bindings.contains_key("console.write"));
        }
        let client = self.live.iter().flat_map(|live| live.bindings.iter());
        let client: HashMap<String, Vec<FunctionParam>> = client
            .filter(|(name, _)| !is_server_called(name))
            .map(|(name, binding)| (name.clone(), binding.function_params.clone()))
            .collect();
        let client_names: Vec<String> = client.keys().cloned().collect();
        self.engine.guest.client_bindings.replace(client);
        let server = self.parts.registry.iter().map(|binding| binding.declaration.name.clone());
        let names = server.chain(client_names).collect();
        let action = Action::Bindings(names);
        self.ready.push_front(Ready { owner: ChargedTo::Background, depth: 0, action });
    }
}

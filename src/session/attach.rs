//! Connections come and go; the session stays.

use std::sync::Arc;

use super::boundary::FromSession;
use super::tables::Freed;
use super::{ClientConnection, Effect, RefHolder, Session, SessionState};
use crate::protocol::client_messages::{Closing, ToClient};
use crate::protocol::fn_ref::FnRef;

impl Session {
    /// A connection takes the session, from another one if need be. One that comes later than a newer one is closed: the
    /// session was taken over from it already.
    pub(super) fn attach(&mut self, client: ClientConnection) {
        let connection = client.number;
        if connection <= self.state.last_connection {
            return self.send(FromSession::Client { connection, event: ToClient::Close(Closing::TakenOver) });
        }
        self.state.last_connection = connection;
        if let Some(number) = self.state.connection() {
            self.send_event(ToClient::Close(Closing::TakenOver));
            self.detach(number);
        }
        self.state.stalled = None;
        self.offer_catalog(Arc::clone(&client.listed));
        self.state.client = Some(client);
        self.introduce_client();
        let evals_queued = self.state.evals.queued() + usize::from(self.state.evals.running.is_some());
        self.send(FromSession::Attached { connection, evals_queued });
        self.send_waiting_calls();
    }

    /// Whether messages of that connection are for this session: it holds it, or it held it and reads too slowly.
    pub(super) fn is_accepted(&self, connection: u64) -> bool {
        self.state.connection() == Some(connection) || self.state.stalled == Some(connection)
    }

    /// Nothing more is sent to that connection.
    pub(super) fn stall(&mut self, connection: u64) {
        if self.state.connection() == Some(connection) {
            self.detach_client();
            self.state.stalled = Some(connection);
        }
    }

    /// The connection of that number is gone, if it is still the one.
    pub(super) fn detach(&mut self, connection: u64) {
        self.state.stalled.take_if(|stalled| *stalled == connection);
        if self.state.connection() == Some(connection) {
            self.detach_client();
        }
    }

    /// What belongs to a connection ends with it.
    fn detach_client(&mut self) {
        if let Some(client) = self.state.client.take() {
            self.state.last_client_names = Arc::new(client.bindings.names_only());
        }
        self.state.console.set_streaming(false);
        self.fail_client_calls();
        let freed = self.state.references.release_all(RefHolder::Client);
        self.free(freed);
        self.state.references.drop_import_schemas();
    }

    /// The client gives up a function of the script.
    pub(super) fn release_from_client(&mut self, reference: &str, count: u64) {
        if let Ok(FnRef::Script(number)) = reference.parse() {
            let freed = self.state.references.release(RefHolder::Client, number, count);
            self.free(freed.into_iter().collect());
        }
    }

    /// A handler gives up a function of the script or of the client.
    pub(super) fn release_from_handler(&mut self, function: &FnRef, count: u64) {
        match function {
            FnRef::Script(number) => {
                let freed = self.state.references.release(RefHolder::Handler, *number, count);
                self.free(freed.into_iter().collect());
            }
            FnRef::Client { .. } => self.release_to_client(function, count),
            FnRef::Handler(_) => {}
        }
    }

    /// Tells the client that functions of its own are not held any more, if they are the present client's.
    fn release_to_client(&mut self, function: &FnRef, count: u64) {
        if let Some(reference) = self.own_reference(function) {
            self.send_event(ToClient::Release { reference, count });
        }
    }

    /// The id on the wire of a function of the present client.
    pub(super) fn own_reference(&self, function: &FnRef) -> Option<String> {
        function.client_id(self.state.connection()?).map(str::to_owned)
    }

    /// Passes on what the script dropped since the last look.
    pub(super) fn send_dropped_imports(&mut self) {
        for function in std::mem::take(&mut self.state.dropped_imports) {
            let Some((count, freed)) = self.state.references.drop_import(&function) else { continue };
            self.free(freed.into_iter().collect());
            self.release_to_client(&function, count);
        }
    }

    /// The context ends: everything that its script held is released.
    pub(super) fn release_imports(&mut self) {
        self.send_dropped_imports();
        let (imports, freed) = self.state.references.drop_imports();
        self.free(freed);
        for (function, count) in imports {
            self.release_to_client(&function, count);
        }
    }

    /// Frees functions that no entry stands for any more.
    pub(super) fn free(&mut self, freed: Vec<Freed>) {
        if freed.is_empty() {
            return;
        }
        let (roots, functions) = SessionState::split_freed(freed);
        if !roots.is_empty() {
            self.effects.push(Effect::FreeRoots(roots));
        }
        if !functions.is_empty() {
            self.send(FromSession::ReleaseFunctions(functions));
        }
    }
}

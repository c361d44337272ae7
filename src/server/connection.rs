//! One connection of a client: the [`Conversation`] between the driver and the pure [`Peer`].
//!
//! It never waits for a script or a handler, nor for the session itself: a session that is being opened and commands
//! that find its inbox full are polled, and the client is not read meanwhile.

mod admission;
mod session_queue;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use self::admission::{CatalogChange, admit, refusal, watch_catalog};
use self::session_queue::SessionQueue;
use crate::binding::Principal;
use crate::budget::{Charge, ConnectionBudget, Purpose};
use crate::observe;
use crate::protocol::client_messages::FromClient;
use crate::protocol::methods::HandshakeParams;
use crate::protocol::peer::{Effect, Peer};
use crate::protocol::shape::tree_bytes;
use crate::quota::QuotaExceeded;
use crate::rpc::{ErrorObject, Id};
use crate::session::boundary::ToSession;
use crate::sessions::events::{ConnectionEvent, EventReceiver};
use crate::sessions::{Directory, OpenSession, SessionLease, out_of_budget};
use crate::transport::{
    Conversation, Disconnect, Driver, DriverSettings, InputEnd, Outbox, Timeouts, Transport, WRITE_STALL_MAX,
    close_code,
};

/// What a connection needs to know.
pub(crate) struct ConnectionConfig {
    pub(crate) directory: Arc<Directory>,
    pub(crate) principal: Arc<Principal>,
    pub(crate) timeouts: Timeouts,
    pub(crate) stop: CancellationToken,
    /// Whether requests are still answered after the end of the input.
    pub(crate) finishes: bool,
    pub(crate) budget: Arc<ConnectionBudget>,
}

/// Serves a connection to its end. Only on a shard.
pub(crate) async fn drive<T: Transport>(transport: T, config: ConnectionConfig) {
    let settings = DriverSettings {
        timeouts: config.timeouts,
        write_stall_max: Some(WRITE_STALL_MAX),
        // A client that does not read its answers is not read either.
        frames_queued_max: 0,
    };
    let stop = config.stop.clone();
    let mut driver = Driver::new(transport, settings);
    let mut connection = Connection::new(config);
    let end = driver.run(&mut connection, &stop).await;
    if end.is_none() {
        driver.flush().await;
    }
    connection.release().await;
    if let Some(end) = end {
        if let Disconnect::Close { code, reason } = &end {
            observe::record_close(*code);
            tracing::info!(code, reason, "closing the connection");
        }
        driver.close(&end).await;
    }
}

type Opened = Result<OpenSession, ErrorObject>;

/// A session that is being opened for a handshake.
struct Opening {
    request: Id,
    opened: Pin<Box<dyn Future<Output = Opened>>>,
}

/// What reaches a connection from inside the server.
enum Input {
    /// The handshake can be answered.
    Opened(Id, Opened),
    /// The session sent something; `None` when it ended, or gave the connection up.
    Session(Option<ConnectionEvent>),
    /// The server's bindings changed.
    CatalogChanged,
    /// The client may be read again.
    MayRead,
}

struct Connection {
    config: ConnectionConfig,
    peer: Peer,
    opening: Option<Opening>,
    lease: Option<SessionLease>,
    events: Option<EventReceiver>,
    commands: SessionQueue,
    /// The version of the server's bindings that the session knows.
    catalog_version: u64,
    /// Ready when the server's bindings change; there for a client that wants to know.
    catalog_change: Option<CatalogChange>,
    /// Ready when the budget has room again; there while it has none.
    room: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Whether the client has sent anything after its handshake, and whether an eval was among it.
    confirmed: (bool, bool),
    /// The quota that the text at hand exceeds.
    over_quota: Option<QuotaExceeded>,
    /// Length of the text at hand.
    text_bytes: usize,
    /// Nothing more can be read, but requests are still answered.
    input_ended: bool,
}

impl Connection {
    fn new(config: ConnectionConfig) -> Self {
        Self {
            peer: Peer::new(config.directory.limits().requests_open_max),
            config,
            opening: None,
            lease: None,
            events: None,
            commands: SessionQueue::default(),
            catalog_version: 0,
            catalog_change: None,
            room: None,
            confirmed: (false, false),
            over_quota: None,
            text_bytes: 0,
            input_ended: false,
        }
    }

    /// Releases the session. One that is being opened is awaited: it would otherwise keep its place.
    async fn release(&mut self) {
        if let Some(Opening { opened, .. }) = self.opening.take() {
            self.lease = opened.await.ok().map(|opened| opened.lease);
        }
        if let Some(lease) = self.lease.take() {
            self.config.directory.release(&lease).await;
        }
    }

    fn perform(&mut self, effect: Effect, out: &mut Outbox) {
        match effect {
            Effect::Send(text) => out.send(text),
            Effect::Close(code, reason) => out.close(code, reason),
            Effect::Command(command) => match self.refuse(&command) {
                Some(text) => out.send(text),
                None => {
                    let charge = self.charge(&command);
                    self.pass_on(command, charge);
                }
            },
            Effect::Handshake { request, params } => match self.over_quota.take() {
                Some(exceeded) => self.on_opened(&request, Err(refusal(exceeded)), out),
                None => self.open(request, params),
            },
            Effect::Ignored(what) => {
                observe::record_stray_message(what);
                tracing::debug!(what, "ignored a message");
            }
        }
    }

    fn open(&mut self, request: Id, params: HandshakeParams) {
        let (directory, principal) = (Arc::clone(&self.config.directory), Arc::clone(&self.config.principal));
        let opened = Box::pin(async move { directory.open(&principal, params).await });
        self.opening = Some(Opening { request, opened });
    }

    fn on_opened(&mut self, request: &Id, opened: Opened, out: &mut Outbox) {
        let text = match &opened {
            Ok(opened) => self.peer.on_handshake(request, Ok(&opened.handshake_result)),
            Err(error) => self.peer.on_handshake::<()>(request, Err(error)),
        };
        if let Ok(opened) = opened {
            (self.lease, self.events) = (Some(opened.lease), Some(opened.events));
            self.catalog_version = opened.catalog_version;
            if opened.wants_changes {
                self.catalog_change = Some(watch_catalog(self.config.directory.handlers().subscribe()));
                // One that came between the handshake and now.
                self.update_catalog();
            }
        }
        out.send(text);
    }

    /// The answer to a request past a quota or a budget. Answers and releases of the client are never refused: the
    /// session waits for them.
    fn refuse(&mut self, command: &FromClient) -> Option<String> {
        let request = match command {
            FromClient::Eval { request, .. } | FromClient::Invoke { request, .. } => request,
            FromClient::Answer { .. } | FromClient::Release { .. } => return None,
        };
        let error = match self.over_quota.take() {
            Some(exceeded) => refusal(exceeded),
            None if self.peer.awaits_answers() && self.config.budget.is_over(Purpose::Request) => {
                out_of_budget()
            }
            None => return None,
        };
        self.peer.refuse(request, &error)
    }

    /// Charges the text at hand to the connection, by what it is.
    fn charge(&mut self, command: &FromClient) -> Charge {
        let text_bytes = std::mem::take(&mut self.text_bytes);
        let (purpose, bytes) = match command {
            FromClient::Eval { .. } | FromClient::Invoke { .. } => (Purpose::Request, text_bytes),
            FromClient::Answer { outcome: Ok(_), .. } | FromClient::Release { .. } => {
                (Purpose::Answer, text_bytes)
            }
            // The data of an error is a value already.
            FromClient::Answer { outcome: Err(error), .. } => {
                (Purpose::Answer, text_bytes + error.data.as_ref().map_or(0, tree_bytes))
            }
        };
        self.config.budget.charge(purpose, bytes)
    }

    fn pass_on(&mut self, command: FromClient, charge: Charge) {
        let Some(lease) = &self.lease else { return };
        let is_eval = matches!(command, FromClient::Eval { .. });
        if self.confirmed != (true, self.confirmed.1 | is_eval) {
            self.config.directory.confirm(lease, is_eval);
            self.confirmed = (true, self.confirmed.1 | is_eval);
        }
        let is_request = is_eval || matches!(command, FromClient::Invoke { .. });
        if is_request {
            self.update_catalog();
        }
        let Some(lease) = &self.lease else { return };
        let waits = is_eval && lease.link.has_open_evals();
        let (admission, slot) = admit(&self.config.principal.account, &command, waits);
        let charge = lease.link.keep_charge(charge, slot, is_eval);
        let connection = lease.connection;
        self.commands.send(&lease.link, ToSession::Client { connection, command, charge, admission });
    }

    /// Tells the session of a new version of the server's bindings, before it gets anything that was sent after it.
    fn update_catalog(&mut self) {
        let catalog = self.config.directory.handlers().catalog();
        if catalog.version() > self.catalog_version
            && let Some(lease) = &self.lease
        {
            self.catalog_version = catalog.version();
            self.commands.send(&lease.link, ToSession::Catalog(catalog));
        }
    }

    fn poll_catalog(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(change) = &mut self.catalog_change else { return Poll::Pending };
        let next = ready!(change.as_mut().poll(cx));
        self.catalog_change = next.map(watch_catalog);
        Poll::Ready(())
    }

    /// The client can answer no calls any more, so no script may wait for it.
    fn give_up_calls(&mut self) {
        for command in self.peer.give_up_calls() {
            self.pass_on(command, Charge::none());
        }
    }

    fn on_session_event(&mut self, event: Option<ConnectionEvent>, out: &mut Outbox) {
        self.text_bytes = 0;
        match event {
            // The handshake is answered already.
            Some(ConnectionEvent::Attached(_)) => {}
            Some(ConnectionEvent::Session(event)) => {
                if let Some(effect) = self.peer.on_event(event) {
                    self.perform(effect, out);
                }
            }
            None => out.close(
                close_code::TRY_AGAIN_LATER,
                "the connection reads too slowly, or its session is lost",
            ),
        }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.room {
            Some(room) => room.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Conversation for Connection {
    type Command = Input;

    fn on_open(&mut self, _: Instant, _: &mut Outbox) {}

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        self.over_quota = self.config.principal.account.count_message(|| now).err();
        self.text_bytes = text.len();
        if let Some(effect) = self.peer.on_text(text) {
            self.perform(effect, out);
        }
    }

    fn on_command(&mut self, input: Input, _: Instant, out: &mut Outbox) {
        match input {
            Input::Opened(request, opened) => self.on_opened(&request, opened, out),
            Input::Session(event) => self.on_session_event(event, out),
            Input::CatalogChanged => self.update_catalog(),
            Input::MayRead => {}
        }
        if self.input_ended {
            self.give_up_calls();
        }
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        if let (Some(lease), Some(events)) = (&self.lease, &mut self.events) {
            if let Poll::Ready(event) = events.poll_recv(cx) {
                return Poll::Ready(Input::Session(event));
            }
            if !self.commands.is_empty() && self.commands.poll(&lease.link, cx).is_ready() {
                return Poll::Ready(Input::MayRead);
            }
        } else if let Some(opening) = &mut self.opening
            && let Poll::Ready(opened) = opening.opened.as_mut().poll(cx)
            && let Some(Opening { request, .. }) = self.opening.take()
        {
            return Poll::Ready(Input::Opened(request, opened));
        }
        if self.poll_catalog(cx).is_ready() {
            return Poll::Ready(Input::CatalogChanged);
        }
        if self.poll_room(cx).is_ready() {
            self.room = None;
            return Poll::Ready(Input::MayRead);
        }
        Poll::Pending
    }

    fn is_ready(&self) -> bool {
        self.lease.is_some()
    }

    fn may_read(&mut self) -> bool {
        let budget = &self.config.budget;
        budget.set_awaits_answers(self.peer.awaits_answers());
        if budget.may_read() {
            self.room = None;
        } else if self.room.is_none() {
            let budget = Arc::clone(budget);
            self.room = Some(Box::pin(async move { budget.wait_for_room().await }));
        }
        self.room.is_none() && self.opening.is_none() && self.commands.is_empty()
    }

    fn is_held_back(&self) -> bool {
        self.config.budget.is_held_back()
    }

    fn on_input_end(&mut self, end: InputEnd, _: Instant, out: &mut Outbox) {
        match end {
            InputEnd::Ended if self.config.finishes => {
                self.input_ended = true;
                self.give_up_calls();
            }
            InputEnd::TooLong => {
                let max = self.config.directory.limits().message_bytes_max;
                out.close(close_code::TOO_LONG, format!("a message may have {max} bytes"));
            }
            InputEnd::Ended | InputEnd::Closed { .. } | InputEnd::Failed(_) => out.end_with(end),
        }
    }

    fn is_done(&self) -> bool {
        self.input_ended && self.peer.is_idle()
    }

    fn on_end(&mut self, _: Instant) {}
}

#[cfg(test)]
mod tests;

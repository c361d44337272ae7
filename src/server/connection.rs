//! One connection: a thin driver between a transport and the pure [`Peer`].
//!
//! It never waits for a script or a handler. Frames that are ready together are answered together and flushed once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::binding::Principal;
use crate::budget::{Charge, ConnectionBudget, Purpose};
use crate::observe;
use crate::protocol::boundary::{SessionCommand, SessionEvent};
use crate::protocol::peer::{Effect, Peer};
use crate::protocol::shape::tree_bytes;
use crate::quota::QuotaExceeded;
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::Inbox;
use crate::sessions::{Directory, SessionLease};
use crate::transport::write::{self, WriteError};
use crate::transport::{Frame, Outgoing, Transport, TransportError, close_code};

/// Frames taken in at one go before the session's answers are looked at.
const FRAMES_PER_ROUND_MAX: usize = 64;

/// When a request makes sense again that found the budget used up: requests are mostly answered by then.
const BUDGET_RETRY_MS: u64 = 100;

/// Time limits of a connection; `None` where the transport has no such thing.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// How long the handshake may take.
    pub handshake: Option<Duration>,
    /// After how much silence the peer is asked for a sign of life.
    pub ping_after: Option<Duration>,
    /// After how much silence it is given up.
    pub idle_max: Option<Duration>,
}

/// What a connection needs to know.
pub(crate) struct ConnectionConfig {
    pub(crate) directory: Arc<Directory>,
    pub(crate) principal: Arc<Principal>,
    pub(crate) timeouts: Timeouts,
    pub(crate) stop: CancellationToken,
    /// Whether the end of input is only that: what was asked before is still answered.
    pub(crate) finishes: bool,
    pub(crate) budget: Arc<ConnectionBudget>,
}

/// How a connection ends: with a close frame, or because nobody is there any more.
enum End {
    Close(u16, String),
    Gone,
}

/// Something happened.
enum Input {
    Frame(Option<Result<Frame, TransportError>>),
    Event(Option<SessionEvent>),
    Silence,
    Stop,
}

struct Connection<T> {
    transport: T,
    peer: Peer,
    config: ConnectionConfig,
    /// Kept from one input to the next, as is the alarm: to register both anew for every message would cost more than
    /// to read it.
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Rings when patience may be at its end. It is set again only for an earlier time, or when it has rung too early.
    alarm: Option<Pin<Box<Sleep>>>,
    lease: Option<SessionLease>,
    /// Whether the client has been heard since its handshake.
    confirmed: (bool, bool),
    /// Whether the text at hand is one too many.
    over_quota: Option<QuotaExceeded>,
    /// Length of the text at hand.
    text_bytes: usize,
    last_heard: Instant,
    pinged: bool,
    /// Nothing more comes in, but answers still go out.
    input_ended: bool,
}

/// Serves a connection to its end. Only on a shard.
pub(crate) async fn drive<T: Transport>(transport: T, config: ConnectionConfig) {
    let requests_open_max = config.directory.limits().requests_open_max;
    let mut connection = Connection {
        transport,
        peer: Peer::new(requests_open_max),
        stopped: Box::pin(config.stop.clone().cancelled_owned()),
        alarm: None,
        config,
        lease: None,
        confirmed: (false, false),
        over_quota: None,
        text_bytes: 0,
        last_heard: Instant::now(),
        pinged: false,
        input_ended: false,
    };
    let end = connection.serve().await;
    if let Some(lease) = connection.lease.take() {
        connection.config.directory.release(&lease).await;
    }
    if let End::Close(code, reason) = end {
        observe::closed(code);
        tracing::info!(code, reason, "closing the connection");
        write::close(&mut connection.transport, code, reason).await;
    }
}

impl<T: Transport> Connection<T> {
    async fn serve(&mut self) -> End {
        loop {
            let input = self.next_input().await;
            if let Err(end) = self.act(input).await {
                // What was answered before is still delivered.
                write::flush_last(&mut self.transport).await;
                return end;
            }
            if let Err(undelivered) = write::flush(&mut self.transport).await {
                return undelivered.into();
            }
            if self.input_ended {
                if self.peer.is_idle() {
                    return End::Gone;
                }
                self.give_up_calls().await;
            }
        }
    }

    /// Nobody can answer any more, so no script is to wait for it.
    async fn give_up_calls(&mut self) {
        for command in self.peer.give_up_calls() {
            self.pass_on(command, Charge::none()).await;
        }
    }

    async fn next_input(&mut self) -> Input {
        loop {
            let may_read = self.may_read();
            self.set_alarm();
            let events = async {
                match &mut self.lease {
                    Some(lease) => lease.events.recv().await,
                    None => std::future::pending().await,
                }
            };
            let alarm = async {
                match &mut self.alarm {
                    Some(alarm) => alarm.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut self.stopped => return Input::Stop,
                event = events => return Input::Event(event),
                frame = self.transport.next(), if !self.input_ended && may_read => return Input::Frame(frame),
                () = self.config.budget.wait_for_room(), if !may_read => {
                    // Nothing was read, so nothing can be said of how long the client was silent.
                    self.last_heard = Instant::now();
                    continue;
                }
                () = alarm => {}
            }
            self.alarm = None;
            if self.next_patience().is_some_and(|at| at <= Instant::now()) {
                return Input::Silence;
            }
        }
    }

    fn may_read(&self) -> bool {
        let budget = &self.config.budget;
        budget.set_awaits_answers(self.peer.awaits_answers());
        budget.may_read()
    }

    fn set_alarm(&mut self) {
        let Some(at) = self.next_patience() else { return };
        match &mut self.alarm {
            None => self.alarm = Some(Box::pin(tokio::time::sleep_until(at))),
            Some(alarm) if at < alarm.deadline() => alarm.as_mut().reset(at),
            Some(_) => {}
        }
    }

    /// Acts on one input and on all others that are ready.
    async fn act(&mut self, input: Input) -> Result<(), End> {
        match input {
            Input::Stop => {
                return Err(End::Close(close_code::GOING_AWAY, "going away".to_owned()));
            }
            Input::Silence => return self.on_silence().await,
            Input::Frame(frame) => self.on_frame(frame).await?,
            Input::Event(event) => self.on_event(event).await?,
        }
        for _ in 0..FRAMES_PER_ROUND_MAX {
            if self.input_ended || !self.may_read() {
                break;
            }
            match self.transport.next().now_or_never() {
                Some(frame) => self.on_frame(frame).await?,
                None => break,
            }
        }
        while let Some(event) = self.lease.as_mut().and_then(|lease| lease.events.try_recv()) {
            self.on_event(Some(event)).await?;
        }
        Ok(())
    }

    async fn on_frame(&mut self, frame: Option<Result<Frame, TransportError>>) -> Result<(), End> {
        self.last_heard = Instant::now();
        self.pinged = false;
        match frame {
            Some(Ok(Frame::Text(text))) => {
                self.over_quota = self.config.principal.account.count_message(std::time::Instant::now).err();
                self.text_bytes = text.len();
                let effect = self.peer.on_text(text.as_str());
                // What is left of it is in the effect; both together would be two copies.
                drop(text);
                match effect {
                    Some(effect) => self.perform(effect).await,
                    None => Ok(()),
                }
            }
            Some(Ok(Frame::Alive)) => Ok(()),
            Some(Ok(Frame::Binary(_))) => {
                Err(End::Close(close_code::UNSUPPORTED, "expected a text frame".to_owned()))
            }
            Some(Ok(Frame::TooLong)) => {
                let max = self.config.directory.limits().message_bytes_max;
                Err(End::Close(close_code::TOO_LONG, format!("a message may have {max} bytes")))
            }
            None if self.config.finishes => {
                self.input_ended = true;
                Ok(())
            }
            Some(Ok(Frame::Closed { .. })) | None => Err(End::Gone),
            Some(Err(error)) => Err(match error.close_code() {
                Some(code) => End::Close(code, error.to_string()),
                None => End::Gone,
            }),
        }
    }

    async fn on_event(&mut self, event: Option<SessionEvent>) -> Result<(), End> {
        self.text_bytes = 0;
        match event {
            Some(event) => match self.peer.on_event(event) {
                Some(effect) => self.perform(effect).await,
                None => Ok(()),
            },
            None => {
                Err(End::Close(1013, "the connection reads too slowly, or its session is lost".to_owned()))
            }
        }
    }

    async fn perform(&mut self, effect: Effect) -> Result<(), End> {
        match effect {
            Effect::Send(text) => self.send(Outgoing::Text(text)).await,
            Effect::Close(code, reason) => Err(End::Close(code, reason.to_owned())),
            Effect::Command(command) => match self.refuse(&command) {
                Some(text) => self.send(Outgoing::Text(text)).await,
                None => {
                    let charge = self.charge(&command);
                    self.pass_on(command, charge).await;
                    Ok(())
                }
            },
            Effect::Handshake { request, params } => {
                let outcome = match self.over_quota.take() {
                    Some(exceeded) => Err(refusal(exceeded)),
                    None => self.config.directory.open(&self.config.principal, params).await,
                };
                let text = match &outcome {
                    Ok(lease) => self.peer.on_handshake(&request, Ok(&lease.handshake_result)),
                    Err(error) => self.peer.on_handshake::<()>(&request, Err(error)),
                };
                self.lease = outcome.ok();
                self.send(Outgoing::Text(text)).await
            }
            Effect::Ignored(what) => {
                observe::stray(what);
                tracing::debug!(what, "ignored a message");
                Ok(())
            }
        }
    }

    /// The answer to a request that is one too many. What the client answers or gives back is never refused: that
    /// would make the session wait for nothing.
    fn refuse(&mut self, command: &SessionCommand) -> Option<String> {
        let request = match command {
            SessionCommand::Eval { request, .. } | SessionCommand::Invoke { request, .. } => request.clone(),
            SessionCommand::Answer { .. } | SessionCommand::Release { .. } => return None,
        };
        let error = match self.over_quota.take() {
            Some(exceeded) => refusal(exceeded),
            None if self.peer.awaits_answers() && self.config.budget.is_over(Purpose::Request) => {
                out_of_budget()
            }
            None => return None,
        };
        let outcome = Err(error);
        match self.peer.on_event(SessionEvent::Answered { request, outcome })? {
            Effect::Send(text) => Some(text),
            Effect::Handshake { .. } | Effect::Command(_) | Effect::Close(..) | Effect::Ignored(_) => None,
        }
    }

    /// Charges the text at hand for what it asks.
    fn charge(&mut self, command: &SessionCommand) -> Charge {
        let text_bytes = std::mem::take(&mut self.text_bytes);
        let (purpose, bytes) = match command {
            SessionCommand::Eval { .. } | SessionCommand::Invoke { .. } => (Purpose::Request, text_bytes),
            SessionCommand::Answer { outcome: Ok(_), .. } | SessionCommand::Release { .. } => {
                (Purpose::Answer, text_bytes)
            }
            // The data of an error is a value already.
            SessionCommand::Answer { outcome: Err(error), .. } => {
                (Purpose::Answer, text_bytes + error.data.as_ref().map_or(0, tree_bytes))
            }
        };
        self.config.budget.charge(purpose, bytes)
    }

    async fn pass_on(&mut self, command: SessionCommand, charge: Charge) {
        let Some(lease) = &self.lease else { return };
        let is_eval = matches!(command, SessionCommand::Eval { .. });
        if self.confirmed != (true, self.confirmed.1 | is_eval) {
            self.config.directory.confirm(lease, is_eval);
            self.confirmed = (true, self.confirmed.1 | is_eval);
        }
        let sent: Result<(), ErrorObject> =
            lease.handle.send(Inbox::Command(lease.connection, command, charge)).await;
        // A session that is gone ends the connection through its closed events.
        drop(sent);
    }

    fn next_patience(&self) -> Option<Instant> {
        let timeouts = &self.config.timeouts;
        let handshake = timeouts.handshake.filter(|_| self.lease.is_none());
        let silence = if self.pinged { timeouts.idle_max } else { timeouts.ping_after };
        [handshake, silence].into_iter().flatten().min().map(|wait| self.last_heard + wait)
    }

    async fn on_silence(&mut self) -> Result<(), End> {
        // Silence means nothing while the client is not read.
        if self.config.budget.is_held_back() || !self.may_read() {
            self.last_heard = Instant::now();
            return Ok(());
        }
        if self.lease.is_none() && self.config.timeouts.handshake.is_some() {
            return Err(End::Close(1008, "handshake timed out".to_owned()));
        }
        if self.pinged {
            return Err(End::Close(1008, "no sign of life".to_owned()));
        }
        self.pinged = true;
        self.send(Outgoing::Ping).await
    }

    async fn send(&mut self, out: Outgoing) -> Result<(), End> {
        write::feed(&mut self.transport, out).await.map_err(End::from)
    }
}

impl From<WriteError> for End {
    fn from(undelivered: WriteError) -> Self {
        match undelivered {
            WriteError::Gone => Self::Gone,
            WriteError::TooSlow => Self::Close(1013, "the connection reads too slowly".to_owned()),
        }
    }
}

/// The answer to a request that a client sends while it has calls to answer and its budget is used up.
fn out_of_budget() -> ErrorObject {
    observe::refused("bytes-in-flight");
    let message = "the requests in flight take too many bytes";
    ErrorObject::new(Kind::Busy, message).with("retryAfterMs", BUDGET_RETRY_MS)
}

fn refusal(exceeded: QuotaExceeded) -> ErrorObject {
    observe::refused(exceeded.resource.name());
    exceeded.into()
}

#[cfg(test)]
mod tests;

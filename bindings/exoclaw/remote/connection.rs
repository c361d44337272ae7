//! A connection to a gateway: performs the effects of the machine, and queues requests until the
//! hello frame arrives.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::machine::{Answer, Effect, Machine, REQUESTS_PENDING_MAX, SendError};
use crate::observe;
use crate::peering::{Conversation, Outbox};
use crate::transport::close_code;

/// How long to wait for the hello frame. A gateway that requires a token sends none before it has
/// the token.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

const NO_HELLO: &str = "no hello from the gateway; it may require a token";

/// Most requests that wait for the hello frame, as many as can be in flight afterwards.
const REQUESTS_QUEUED_MAX: usize = REQUESTS_PENDING_MAX;

/// A request, and where its answer is sent.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) method: &'static str,
    pub(super) params: Option<Value>,
    pub(super) answers_tx: mpsc::Sender<Answer>,
}

pub(super) struct GatewayConnection {
    gateway: String,
    machine: Machine<mpsc::Sender<Answer>>,
    /// Requests that wait for the hello frame.
    queued: Vec<Command>,
    /// Set while the hello frame is awaited.
    hello_deadline: Option<Instant>,
}

impl GatewayConnection {
    pub(super) fn new(gateway: &str, token: Option<String>) -> Self {
        let machine = Machine::new(token);
        Self { gateway: gateway.to_owned(), machine, queued: Vec::new(), hello_deadline: None }
    }

    fn send_request(&mut self, command: Command, out: &mut Outbox) {
        let Command { method, params, answers_tx } = command;
        match self.machine.start_request(method, params.as_ref(), answers_tx) {
            Ok(frame) => out.send(frame),
            Err(SendError::NotReady(answers_tx)) if self.queued.len() < REQUESTS_QUEUED_MAX => {
                self.queued.push(Command { method, params, answers_tx });
            }
            Err(SendError::NotReady(answers_tx) | SendError::TooManyPending(answers_tx)) => {
                let busy = Answer::Response(Err("too many requests are waiting".to_owned()));
                // Fails if the caller has stopped waiting.
                let _ = answers_tx.try_send(busy);
            }
        }
    }

    fn perform(&mut self, effect: Effect<mpsc::Sender<Answer>>, out: &mut Outbox) {
        match effect {
            Effect::Send(frame) => out.send(frame),
            Effect::Ready => {
                self.hello_deadline = None;
                for command in std::mem::take(&mut self.queued) {
                    self.send_request(command, out);
                }
            }
            Effect::AuthFailed => {
                out.give_up(
                    "the gateway rejected the token (auth_failed): check `token` in the configuration",
                );
            }
            Effect::Deliver(answers_tx, answer) => {
                if let Err(TrySendError::Full(_)) = answers_tx.try_send(answer) {
                    out.close(close_code::NORMAL, "events are read too slowly");
                }
            }
            Effect::Warn(warning) => {
                observe::record_peer_warning("exoclaw.unexpected_frame");
                tracing::warn!(gateway = self.gateway, warning, "protocol violation by an exoclaw gateway");
            }
        }
    }
}

impl Conversation for GatewayConnection {
    type Command = Command;

    fn on_open(&mut self, now: Instant, out: &mut Outbox) {
        self.hello_deadline = Some(now + HELLO_TIMEOUT);
        for effect in self.machine.on_open() {
            self.perform(effect, out);
        }
    }

    fn on_text(&mut self, text: &str, _now: Instant, out: &mut Outbox) {
        let effect = self.machine.on_text(text);
        self.perform(effect, out);
    }

    fn on_command(&mut self, command: Command, _now: Instant, out: &mut Outbox) {
        self.send_request(command, out);
    }

    fn is_ready(&self) -> bool {
        self.hello_deadline.is_none()
    }

    fn wake_at(&self) -> Option<Instant> {
        self.hello_deadline
    }

    fn on_wake(&mut self, _now: Instant, out: &mut Outbox) {
        for command in self.queued.drain(..) {
            // The state of the link may no longer show this reason when the caller looks at it, so
            // send it here.
            let _ = command.answers_tx.try_send(Answer::Lost(NO_HELLO.to_owned()));
        }
        out.close(close_code::NORMAL, NO_HELLO);
    }

    fn on_end(&mut self, _now: Instant) {
        self.hello_deadline = None;
        self.queued.clear();
        // Dropping the senders notifies the callers.
        self.machine.on_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::exoclaw::wire;
    use crate::peering::Disconnect;
    use serde_json::json;

    fn ping() -> (Command, mpsc::Receiver<Answer>) {
        let (answers_tx, answers_rx) = mpsc::channel(1);
        (Command { method: "ping", params: None, answers_tx }, answers_rx)
    }

    #[test]
    fn requests_wait_for_hello() {
        let (mut connection, mut out, now) =
            (GatewayConnection::new("g", None), Outbox::default(), Instant::now());
        let (command, mut answers_rx) = ping();
        connection.on_open(now, &mut out);
        connection.on_command(command, now, &mut out);
        assert_eq!(out.take_texts(), Vec::<String>::new());
        assert!(!connection.is_ready());
        connection.on_text(&wire::hello_frame(), now, &mut out);
        assert!(connection.is_ready());
        assert_eq!(out.take_texts(), [r#"{"id":"1","method":"ping"}"#]);
        connection.on_text(r#"{"id":"1","result":"pong"}"#, now, &mut out);
        assert_eq!(answers_rx.try_recv(), Ok(Answer::Response(Ok(json!("pong")))));
        assert_eq!(connection.wake_at(), None);
    }

    #[test]
    fn requests_past_the_queue_limit_are_rejected() {
        let (mut connection, mut out, now) =
            (GatewayConnection::new("g", None), Outbox::default(), Instant::now());
        connection.on_open(now, &mut out);
        let mut waiting = Vec::new();
        for _ in 0..REQUESTS_QUEUED_MAX {
            let (command, answers_rx) = ping();
            connection.on_command(command, now, &mut out);
            waiting.push(answers_rx);
        }
        assert!(waiting.iter_mut().all(|answers_rx| answers_rx.try_recv().is_err()));
        let (command, mut answers_rx) = ping();
        connection.on_command(command, now, &mut out);
        let rejection = Answer::Response(Err("too many requests are waiting".to_owned()));
        assert_eq!(answers_rx.try_recv(), Ok(rejection));
    }

    #[test]
    fn rejected_token_gives_up_the_link() {
        let (mut connection, mut out, now) =
            (GatewayConnection::new("g", Some("s".to_owned())), Outbox::default(), Instant::now());
        connection.on_open(now, &mut out);
        connection.on_text(&wire::auth_failed_frame(), now, &mut out);
        assert!(
            matches!(out.disconnect(), Some(Disconnect::GiveUp { reason }) if reason.contains("auth_failed"))
        );
    }

    #[test]
    fn missing_hello_closes_the_connection_and_fails_requests() {
        let (mut connection, mut out, now) =
            (GatewayConnection::new("g", None), Outbox::default(), Instant::now());
        let (command, mut answers_rx) = ping();
        connection.on_open(now, &mut out);
        connection.on_command(command, now, &mut out);
        assert_eq!(connection.wake_at(), Some(now + HELLO_TIMEOUT));
        connection.on_wake(now + HELLO_TIMEOUT, &mut out);
        assert!(
            matches!(out.disconnect(), Some(Disconnect::Close { reason, .. }) if reason.contains("token"))
        );
        assert_eq!(answers_rx.try_recv(), Ok(Answer::Lost(NO_HELLO.to_owned())));
    }

    #[test]
    fn end_of_connection_drops_the_answer_senders() {
        let (mut connection, mut out, now) =
            (GatewayConnection::new("g", None), Outbox::default(), Instant::now());
        let ((queued, mut queued_rx), (sent, mut sent_rx)) = (ping(), ping());
        connection.on_open(now, &mut out);
        connection.on_text(&wire::hello_frame(), now, &mut out);
        connection.on_command(sent, now, &mut out);
        connection.on_end(now);
        connection.on_open(now, &mut out);
        connection.on_command(queued, now, &mut out);
        connection.on_end(now);
        for answers_rx in [&mut queued_rx, &mut sent_rx] {
            assert_eq!(answers_rx.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        }
    }

    #[test]
    fn unread_events_close_the_connection() {
        let (mut connection, mut out, now) =
            (GatewayConnection::new("g", None), Outbox::default(), Instant::now());
        let (command, answers_rx) = ping();
        connection.on_open(now, &mut out);
        connection.on_text(&wire::hello_frame(), now, &mut out);
        connection.on_command(command, now, &mut out);
        connection.on_text(r#"{"id":"1","event":"text","data":"a"}"#, now, &mut out);
        assert_eq!(out.disconnect(), None);
        connection.on_text(r#"{"id":"1","event":"text","data":"b"}"#, now, &mut out);
        assert!(matches!(out.disconnect(), Some(Disconnect::Close { .. })));
        drop(answers_rx);
    }
}

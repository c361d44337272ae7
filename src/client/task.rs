//! The one task of a client: owns the connection, its machine and the running handlers, and connects again after a
//! break.
//!
//! Thin on purpose: what a text means is decided by the machine, when to write by the driver. Handles send commands
//! over a bounded channel; while the connection is down they wait there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::builder::Settings;
use super::command::{Command, Waiter};
use super::connection::{Connection, Requests, SESSION_CLOSE};
use super::handshake::{HandshakeResult, Session, shake_hands};
use super::machine::Machine;
use super::reconnect::{Resumed, is_unexpected};
use super::references::Imports;
use super::{ClientError, Inner};
use crate::concurrency::random_fraction;
use crate::protocol::methods::{EvalParams, ResumeParams};
use crate::rpc::Kind;
use crate::transport::{BoxTransport, Disconnect, Driver, DriverSettings, Timeouts, close_code};

/// The server pings; the client waits for it as long as its callers do. Two peers that each waited for the other to
/// read would wait for ever, so frames are queued: large enough that no honest server notices the limit.
const DRIVER_SETTINGS: DriverSettings =
    DriverSettings { timeouts: Timeouts::NONE, write_stall_max: None, frames_queued_max: 1023 };

/// What handles may know of the current connection.
pub(super) struct Connected {
    pub(super) number: u64,
    pub(super) session: Session,
    pub(super) bindings: Arc<[Value]>,
    pub(super) metadata: Value,
    pub(super) imports: Arc<Imports>,
}

/// A connection after its handshake.
pub(super) struct Live {
    driver: Driver<BoxTransport>,
    requests: Requests,
}

/// Opens a connection: shakes hands over `transport`, and with `anew` again without the session if that is gone.
pub(super) async fn open(
    settings: &Settings,
    transport: BoxTransport,
    resume: Option<&ResumeParams>,
    anew: bool,
    number: u64,
) -> Result<(Live, Connected), ClientError> {
    let mut driver = Driver::new(transport, DRIVER_SETTINGS);
    let mut machine = Machine::new(Arc::clone(&settings.handlers), settings.message_bytes_max);
    let introduction = settings.introduction();
    let first = shake_hands(&mut driver, &mut machine, &introduction, resume).await;
    let result = match first {
        Err(ClientError::Rpc(error)) if anew && error.is(Kind::SessionRefused) => {
            shake_hands(&mut driver, &mut machine, &introduction, None).await?
        }
        first => first?,
    };
    let HandshakeResult { session, bindings, metadata } = result;
    let imports = Arc::clone(machine.imports());
    let connected = Connected { number, session, bindings: bindings.into(), metadata, imports };
    Ok((Live { driver, requests: Requests::new(machine, number) }, connected))
}

/// How a connection ended.
pub(super) struct Ended {
    disconnect: Disconnect,
    code: u16,
    reason: String,
}

impl Ended {
    /// `failure` is why the connection broke, if that is known.
    pub(super) fn new(disconnect: Option<Disconnect>, failure: Option<String>) -> Self {
        let disconnect = disconnect.unwrap_or(Disconnect::Gone);
        let (code, reason) = match &disconnect {
            Disconnect::Close { code, reason } | Disconnect::Closed { code, reason } => {
                (*code, reason.clone())
            }
            Disconnect::GiveUp { reason } => (close_code::NORMAL, reason.clone()),
            Disconnect::Gone => (close_code::ABNORMAL, failure.unwrap_or_default()),
        };
        Self { disconnect, code, reason }
    }

    pub(super) fn to_error(&self) -> ClientError {
        ClientError::Closed { code: self.code, reason: self.reason.clone() }
    }
}

pub(super) struct ClientTask {
    pub(super) settings: Arc<Settings>,
    pub(super) commands_rx: mpsc::Receiver<Command>,
    pub(super) closing: CancellationToken,
    /// Whether the session is kept when the client closes.
    pub(super) keeps_session: Arc<AtomicBool>,
    pub(super) client: Weak<Inner>,
    pub(super) connected_tx: watch::Sender<Arc<Connected>>,
    pub(super) closed_tx: watch::Sender<Option<(u16, String)>>,
}

impl ClientTask {
    /// Serves one connection after the other until the last one ends for good.
    pub(super) async fn run(mut self, mut live: Live) {
        let mut resend = Vec::new();
        loop {
            let ended = self.serve(&mut live, resend).await;
            // Dropping the requests ends the handlers: their answers could not be sent.
            let Live { mut driver, mut requests } = live;
            let comes_back = self.comes_back(&ended);
            let kept = fail_or_keep(requests.machine.drain(), &ended, comes_back);
            let number = requests.number;
            drop(requests);
            driver.close(&ended.disconnect).await;
            drop(driver);
            match if comes_back { self.reconnect(number + 1).await } else { None } {
                Some((next, resumed)) => {
                    live = next;
                    resend = keep_for_session(kept, resumed);
                }
                None => return self.finish(kept, &ended),
            }
        }
    }

    async fn serve(&mut self, live: &mut Live, resend: Vec<(EvalParams, Waiter)>) -> Ended {
        let Self { commands_rx, closing, keeps_session, client, connected_tx, .. } = self;
        let ends_session = || {
            let has_sessions =
                connected_tx.borrow().bindings.iter().any(|binding| binding["name"] == SESSION_CLOSE);
            has_sessions && !keeps_session.load(Ordering::Relaxed)
        };
        let Live { driver, requests } = live;
        let mut connection =
            Connection::new(requests, commands_rx, Weak::clone(client), resend, ends_session);
        let disconnect = driver.run(&mut connection, closing).await;
        Ended::new(disconnect, driver.failure())
    }

    fn comes_back(&self, ended: &Ended) -> bool {
        let is_deliberate = matches!(ended.disconnect, Disconnect::Close { .. } | Disconnect::GiveUp { .. })
            || self.closing.is_cancelled();
        !is_deliberate
            && self.settings.reconnect.is_some()
            && self.settings.dial.is_some()
            && is_unexpected(ended.code)
    }

    /// Dials until it works, the attempts are used up, or the client is closed.
    async fn reconnect(&self, number: u64) -> Option<(Live, Resumed)> {
        let (policy, dial) = (self.settings.reconnect?, self.settings.dial.as_ref()?);
        let resume = self.connected_tx.borrow().session.resume();
        let mut backoff = policy.backoff();
        for attempt in 0..policy.attempts {
            let wait = backoff.next_wait(random_fraction());
            let opening = async {
                tokio::time::sleep(wait).await;
                open(&self.settings, dial().await?, resume.as_ref(), true, number).await
            };
            let opened = tokio::select! {
                opened = opening => opened,
                () = self.closing.cancelled() => return None,
            };
            match opened {
                Ok((live, connected)) => {
                    let resumed = Resumed { resumed: connected.session.resumed };
                    self.connected_tx.send_replace(Arc::new(connected));
                    if let Some(hook) = &self.settings.on_reconnect {
                        hook(resumed);
                    }
                    return Some((live, resumed));
                }
                Err(error) => debug!(%error, attempt, "reconnect failed"),
            }
        }
        None
    }

    /// Fails all callers, those included whose commands were not looked at.
    fn finish(mut self, kept: Vec<Waiter>, ended: &Ended) {
        self.closed_tx.send_replace(Some((ended.code, ended.reason.clone())));
        for waiter in kept {
            waiter.settle(Err(ended.to_error()));
        }
        self.commands_rx.close();
        while let Ok(command) = self.commands_rx.try_recv() {
            match command {
                Command::Request { waiter, .. } => waiter.settle(Err(ended.to_error())),
                Command::Export { value_tx, .. } => drop(value_tx),
            }
        }
    }
}

/// Fails the waiters of a connection that ended; returns those whose evals may be sent again, in their order.
fn fail_or_keep(waiters: Vec<Waiter>, ended: &Ended, comes_back: bool) -> Vec<Waiter> {
    let (mut kept, lost): (Vec<_>, Vec<_>) =
        waiters.into_iter().partition(|waiter| comes_back && waiter.keyed.is_some());
    for waiter in lost {
        waiter.settle(Err(ended.to_error()));
    }
    kept.sort_by_key(Waiter::id);
    kept
}

/// Keyed evals run once, so they may be sent again; but only to the session that knows their keys.
fn keep_for_session(kept: Vec<Waiter>, Resumed { resumed }: Resumed) -> Vec<(EvalParams, Waiter)> {
    let mut resend = Vec::new();
    for mut waiter in kept {
        match waiter.keyed.take() {
            Some(params) if resumed => resend.push((params, waiter)),
            Some(_) | None => waiter.settle(Err(ClientError::SessionLost)),
        }
    }
    resend
}

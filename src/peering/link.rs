//! A connection that we dial and keep up: dial, serve, wait, dial again. One per configured peer, shared by all
//! sessions.
//!
//! Its state is known at every moment, so a call to a peer that is down fails immediately instead of after a timeout.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::handshake::Handshaking;
use super::{Background, Conversation, Disconnect, Host, commands, pump};
use crate::concurrency::{Backoff, random_fraction};
use crate::transport::{self, Dial};

/// A connection that was up this long counts as good: the next wait is the first one again.
/// A peer that accepts every connection and drops it immediately is not hammered.
const GOOD_AFTER: Duration = Duration::from_secs(5);

/// The first and the longest wait between dials, each with a jitter of a fifth.
const DIAL_WAIT_FIRST: Duration = Duration::from_millis(200);
const DIAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long a peer may take to complete the handshake of its protocol once it has accepted the connection.
/// Long enough for a gateway that wakes up for it; callers see `not connected: handshake timed out`.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

/// How to reach a peer.
#[derive(Debug, Clone)]
pub(crate) struct LinkSettings {
    /// Its name in the configuration, for the log.
    pub name: String,
    /// Where and how to dial.
    pub dial: Dial,
    /// How long a dial may take.
    pub connect_max: Duration,
    /// How long the handshake of the protocol may take after that.
    pub handshake_max: Duration,
    /// How long to wait between dials.
    pub backoff: Backoff,
}

impl LinkSettings {
    /// Settings with the usual limits: 10 s to connect, 30 s for the handshake, waits of 200 ms to 5 s.
    pub(crate) fn new(name: impl Into<String>, dial: Dial) -> Self {
        let connect_max = Duration::from_secs(10);
        Self {
            name: name.into(),
            dial,
            connect_max,
            handshake_max: HANDSHAKE_MAX,
            backoff: Backoff::new(DIAL_WAIT_FIRST, DIAL_WAIT_MAX).with_jitter(0.8..=1.2),
        }
    }
}

/// The state of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Not connected; it will be dialled again.
    Down {
        /// What went wrong last, if anything did.
        error: Option<String>,
    },
    /// Being dialled, or connected with the handshake of the protocol still under way.
    Connecting,
    /// Connected, and the handshake is complete.
    Up,
    /// Not connected, and not dialled any more: the configuration is wrong, or the server stops.
    GivenUp {
        /// Why.
        reason: String,
    },
}

impl LinkState {
    /// For scripts and operators.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Down { error } => json!({"state": "down", "error": error}),
            Self::Connecting => json!({"state": "connecting"}),
            Self::Up => json!({"state": "up"}),
            Self::GivenUp { reason } => json!({"state": "given up", "error": reason}),
        }
    }
}

/// A command was not sent, because the link is not up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LinkDown(pub String);

/// A handle that sends commands to a link's conversation. Cheap to clone.
#[derive(Debug)]
pub(crate) struct Link<C> {
    commands_tx: mpsc::Sender<C>,
    state_rx: watch::Receiver<LinkState>,
}

impl<C> Clone for Link<C> {
    fn clone(&self) -> Self {
        Self { commands_tx: self.commands_tx.clone(), state_rx: self.state_rx.clone() }
    }
}

impl<C> Link<C> {
    /// Its state now.
    pub(crate) fn state(&self) -> LinkState {
        self.state_rx.borrow().clone()
    }

    /// Sends a command to the conversation, if the link is up. It is lost when the connection breaks before it is
    /// handled.
    pub(crate) async fn send(&self, command: C) -> Result<(), LinkDown> {
        let down = match self.state() {
            LinkState::Up => None,
            LinkState::Down { error: None } | LinkState::Connecting => Some("not connected".to_owned()),
            LinkState::Down { error: Some(error) } => Some(format!("not connected: {error}")),
            LinkState::GivenUp { reason } => Some(reason),
        };
        match down {
            Some(why) => Err(LinkDown(why)),
            None => self.commands_tx.send(command).await.map_err(|_| LinkDown("the server stops".to_owned())),
        }
    }

    /// Waits until the link is up, or given up.
    #[cfg(test)]
    pub(crate) async fn settled(&self) -> LinkState {
        let mut state_rx = self.state_rx.clone();
        let is_settled = |state: &LinkState| matches!(state, LinkState::Up | LinkState::GivenUp { .. });
        match state_rx.wait_for(is_settled).await {
            Ok(state) => state.clone(),
            Err(_) => LinkState::GivenUp { reason: "the server stops".to_owned() },
        }
    }
}

/// A link and the background work that keeps it up; it dials when that runs. `converse` makes the conversation; the
/// sender is for the commands of the tasks that it starts.
pub(crate) fn link<C>(
    settings: LinkSettings,
    converse: impl FnOnce(mpsc::Sender<C::Command>) -> C,
) -> (Link<C::Command>, Background)
where
    C: Conversation<Command: Send> + Send + 'static,
{
    let (commands_tx, commands_rx) = commands();
    let conversation = converse(commands_tx.clone());
    let (state_tx, state_rx) = watch::channel(LinkState::Down { error: None });
    let conversation = Handshaking::new(conversation, state_tx, settings.handshake_max);
    let driver = Driver { settings, conversation, commands_rx };
    (Link { commands_tx, state_rx }, Background::new(move |host| driver.run(host)))
}

struct Driver<C: Conversation> {
    settings: LinkSettings,
    conversation: Handshaking<C>,
    commands_rx: mpsc::Receiver<C::Command>,
}

impl<C: Conversation> Driver<C> {
    async fn run(mut self, host: Host) {
        let end = loop {
            match self.attempt(&host).await {
                Ok(()) => {}
                Err(reason) => break reason,
            }
            let wait = self.settings.backoff.next_wait(random_fraction());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = host.stop.cancelled() => break "the server stops".to_owned(),
            }
        };
        tracing::info!(peer = self.settings.name, reason = end, "the link is given up");
        self.conversation.set_state(LinkState::GivenUp { reason: end });
        // The state stays readable for as long as the server runs.
        host.stop.cancelled().await;
    }

    /// Dials and serves one connection; an error is the end of the link.
    async fn attempt(&mut self, host: &Host) -> Result<(), String> {
        self.conversation.set_state(LinkState::Connecting);
        let dialled = tokio::select! {
            dialled = tokio::time::timeout(self.settings.connect_max, transport::dial(&self.settings.dial)) => dialled,
            () = host.stop.cancelled() => return Err("the server stops".to_owned()),
        };
        let mut transport = match dialled {
            Ok(Ok(transport)) => transport,
            Ok(Err(error)) => return self.down(error.to_string()),
            Err(_) => return self.down("dial timed out".to_owned()),
        };
        tracing::info!(peer = self.settings.name, "connected");
        self.discard_commands();
        let disconnect =
            pump(&mut transport, &mut self.conversation, &mut self.commands_rx, &host.stop).await;
        let ready_at: Option<Instant> = self.conversation.take_ready_at();
        if ready_at.is_some_and(|at| at.elapsed() >= GOOD_AFTER) {
            self.settings.backoff.reset();
        }
        match disconnect {
            Disconnect::GiveUp { reason } => Err(reason),
            Disconnect::Close { reason, .. } => self.down(reason),
            Disconnect::Closed { code, reason } => self.down(format!("closed with {code} {reason}")),
            Disconnect::Gone => self.down("the connection was lost".to_owned()),
        }
    }

    fn down(&mut self, error: String) -> Result<(), String> {
        tracing::warn!(peer = self.settings.name, error, "not connected");
        self.conversation.set_state(LinkState::Down { error: Some(error) });
        self.discard_commands();
        Ok(())
    }

    /// Drops the commands that were sent while the connection broke; their callers notice by the drop.
    fn discard_commands(&mut self) {
        while self.commands_rx.try_recv().is_ok() {}
    }
}

//! The loop between a transport and a conversation. It decides nothing that a protocol could have an opinion on.

use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Conversation, Outbox};
use crate::transport::write::{self, WriteError};
use crate::transport::{Frame, Outgoing, Transport, TransportError, close_code};

/// Inputs taken at one go before the output is flushed.
const INPUTS_PER_ROUND_MAX: usize = 64;

/// After this much silence the peer is asked for a sign of life.
const PING_AFTER: Duration = Duration::from_secs(30);

/// After this much silence it is given up: two pings were lost, or nobody is there.
const SILENCE_MAX: Duration = Duration::from_secs(75);

/// How a connection ended, or is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disconnect {
    /// With a close frame of ours.
    Close {
        /// Its code.
        code: u16,
        /// Its reason.
        reason: String,
    },
    /// With a close frame of ours, and not to be dialled again.
    GiveUp {
        /// Why.
        reason: String,
    },
    /// The peer closed it.
    Closed {
        /// Its code.
        code: u16,
        /// Its reason.
        reason: String,
    },
    /// The peer is gone without a word.
    Gone,
}

enum Input<C> {
    Frame(Option<Result<Frame, TransportError>>),
    Command(C),
    Wake,
    Stop,
}

/// Serves a connection to its end.
pub async fn pump<T: Transport, C: Conversation>(
    transport: &mut T,
    conversation: &mut C,
    commands_rx: &mut mpsc::Receiver<C::Command>,
    stop: &CancellationToken,
) -> Disconnect {
    let mut pump = Pump { transport, conversation, commands_rx, last_heard: Instant::now(), pinged: false };
    let parting = pump.run(stop).await;
    pump.conversation.on_end(Instant::now());
    match &parting {
        Disconnect::Close { code, reason } => write::close(pump.transport, *code, reason.clone()).await,
        Disconnect::GiveUp { reason } => {
            write::close(pump.transport, close_code::NORMAL, reason.clone()).await;
        }
        Disconnect::Closed { .. } => write::flush_last(pump.transport).await,
        Disconnect::Gone => {}
    }
    parting
}

struct Pump<'a, T, C: Conversation> {
    transport: &'a mut T,
    conversation: &'a mut C,
    commands_rx: &'a mut mpsc::Receiver<C::Command>,
    last_heard: Instant,
    pinged: bool,
}

impl<T: Transport, C: Conversation> Pump<'_, T, C> {
    async fn run(&mut self, stop: &CancellationToken) -> Disconnect {
        let mut out = Outbox::default();
        self.conversation.on_open(Instant::now(), &mut out);
        loop {
            if let Err(parting) = self.deliver(&mut out).await {
                return parting;
            }
            let input = self.next_input(stop).await;
            if let Err(parting) = self.act(input, &mut out) {
                // What was answered before is still delivered.
                let _ = self.feed(&mut out).await;
                write::flush_last(self.transport).await;
                return parting;
            }
        }
    }

    /// Acts on one input and on all others that are ready.
    fn act(&mut self, input: Input<C::Command>, out: &mut Outbox) -> Result<(), Disconnect> {
        self.take(input, out)?;
        for _ in 0..INPUTS_PER_ROUND_MAX {
            let ready = if let Ok(command) = self.commands_rx.try_recv() {
                Input::Command(command)
            } else if let Some(frame) = self.transport.next().now_or_never() {
                Input::Frame(frame)
            } else {
                break;
            };
            if out.parting.is_some() {
                break;
            }
            self.take(ready, out)?;
        }
        Ok(())
    }

    fn take(&mut self, input: Input<C::Command>, out: &mut Outbox) -> Result<(), Disconnect> {
        let now = Instant::now();
        match input {
            Input::Command(command) => self.conversation.on_command(command, now, out),
            Input::Frame(frame) => return self.on_frame(frame, now, out),
            Input::Wake => return self.on_wake(now, out),
            Input::Stop => out.close(close_code::GOING_AWAY, "going away"),
        }
        Ok(())
    }

    fn on_frame(
        &mut self,
        frame: Option<Result<Frame, TransportError>>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Disconnect> {
        self.last_heard = now;
        self.pinged = false;
        match frame {
            Some(Ok(Frame::Text(text))) => self.conversation.on_text(text.as_str(), now, out),
            Some(Ok(Frame::Binary(bytes))) => self.conversation.on_binary(&bytes, now, out),
            Some(Ok(Frame::Alive)) => {}
            Some(Ok(Frame::TooLong)) => out.close(close_code::TOO_LONG, "the message is too long"),
            Some(Ok(Frame::Closed { code, reason })) => return Err(Disconnect::Closed { code, reason }),
            Some(Err(error)) => match error.close_code() {
                Some(code) => out.close(code, error.to_string()),
                None => return Err(Disconnect::Gone),
            },
            None => return Err(Disconnect::Gone),
        }
        Ok(())
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Disconnect> {
        if self.conversation.wake_at().is_some_and(|at| at <= now) {
            self.conversation.on_wake(now, out);
        }
        if now >= self.last_heard + SILENCE_MAX {
            return Err(Disconnect::Close { code: 1008, reason: "no sign of life".to_owned() });
        }
        Ok(())
    }

    async fn next_input(&mut self, stop: &CancellationToken) -> Input<C::Command> {
        let silence = self.last_heard + if self.pinged { SILENCE_MAX } else { PING_AFTER };
        let wake_at = self.conversation.wake_at().map_or(silence, |at| at.min(silence));
        tokio::select! {
            biased;
            () = stop.cancelled() => Input::Stop,
            // A channel that nobody can send to any more is no reason to end.
            Some(command) = self.commands_rx.recv() => Input::Command(command),
            frame = self.transport.next() => Input::Frame(frame),
            () = tokio::time::sleep_until(wake_at.into()) => Input::Wake,
        }
    }

    async fn feed(&mut self, out: &mut Outbox) -> Result<(), WriteError> {
        for text in out.take_texts() {
            write::feed(self.transport, Outgoing::Text(text)).await?;
        }
        Ok(())
    }

    async fn deliver(&mut self, out: &mut Outbox) -> Result<(), Disconnect> {
        if let Some(parting) = out.parting.clone() {
            self.conversation.on_closing(&parting, out);
        }
        let delivered = async {
            self.feed(out).await?;
            if !self.pinged && Instant::now() >= self.last_heard + PING_AFTER {
                self.pinged = true;
                write::feed(self.transport, Outgoing::Ping).await?;
            }
            write::flush(self.transport).await
        };
        match delivered.await {
            Ok(()) => out.parting.take().map_or(Ok(()), Err),
            // A peer that has left before our last frames does not change how the connection was to end.
            Err(WriteError::Gone) => Err(out.parting.take().unwrap_or(Disconnect::Gone)),
            Err(WriteError::TooSlow) => {
                Err(Disconnect::Close { code: 1013, reason: "the connection reads too slowly".to_owned() })
            }
        }
    }
}

#[cfg(test)]
mod tests;

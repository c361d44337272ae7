//! A task that owns a connection to a gateway: it sends the frames of scripts, matches their
//! replies, and passes incoming frames to a script's function.
//!
//! A registered agent and a subscription live as long as their function; a task without one lives
//! for one call.

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::codes::ErrorCode;
use super::gateway_connection::GatewayConnection;
use super::pending_replies::{FrameClass, PendingReplies, correlation_id};
use super::priority_queue::PriorityQueue;
use super::replies::{self, HandlerResult};
use super::reply_limit::{LimitDecision, ReplyLimit};
use super::wire::{FrameType, Priority};
use crate::binding::FunctionRef;
use crate::protocol::plain::{from_plain, to_plain};

/// Outgoing frames that wait for a task; senders of more wait for room.
const OUTGOING_QUEUED_MAX: usize = 64;

/// Concurrent calls of an agent's function; further messages wait by priority.
const CONCURRENT_CALLS_MAX: usize = 16;

/// The result of an outgoing frame: its reply or the error frame about it. `None` means that the
/// gateway handled a frame which expects no reply.
pub(crate) type Reply = Result<Option<Value>, String>;

#[derive(Debug)]
pub(crate) struct OutgoingFrame {
    pub(crate) fields: Map<String, Value>,
    pub(crate) expects_reply: bool,
    pub(crate) reply_tx: oneshot::Sender<Reply>,
}

/// The function of a script that receives frames.
#[derive(Debug, Clone)]
pub(crate) struct ScriptCallback {
    pub(crate) function: FunctionRef,
    /// The agent that the function implements; `None` for a subscriber.
    pub(crate) agent: Option<String>,
}

/// Starts a task. It ends with its connection, when it is stopped, when its function is dropped,
/// or, if it has no function, with the last sender of frames.
pub(crate) fn spawn(
    connection: GatewayConnection,
    callback: Option<ScriptCallback>,
    stop: CancellationToken,
) -> mpsc::Sender<OutgoingFrame> {
    let (frames_tx, frames_rx) = mpsc::channel(OUTGOING_QUEUED_MAX);
    let task = AgentTask {
        connection,
        pending: PendingReplies::default(),
        callback,
        inbox: PriorityQueue::default(),
        calls: JoinSet::new(),
        reply_limit: ReplyLimit::default(),
    };
    tokio::spawn(task.run(frames_rx, stop));
    frames_tx
}

struct AgentTask {
    connection: GatewayConnection,
    pending: PendingReplies<oneshot::Sender<Reply>>,
    callback: Option<ScriptCallback>,
    inbox: PriorityQueue<Value>,
    calls: JoinSet<Option<Map<String, Value>>>,
    reply_limit: ReplyLimit,
}

enum Event {
    Outgoing(OutgoingFrame),
    Incoming(Value),
    CallFinished(Option<Map<String, Value>>),
    End,
}

impl AgentTask {
    async fn run(mut self, mut frames_rx: mpsc::Receiver<OutgoingFrame>, stop: CancellationToken) {
        loop {
            let is_connected = match self.next_event(&mut frames_rx, &stop).await {
                Event::Outgoing(frame) => self.send_frame(frame).await,
                Event::Incoming(frame) => self.handle_frame(frame).await,
                Event::CallFinished(Some(reply)) => self.send_reply(reply).await,
                Event::CallFinished(None) => true,
                Event::End => break,
            };
            if !is_connected && self.callback.is_none() {
                break;
            }
            self.start_calls();
        }
    }

    async fn next_event(
        &mut self,
        frames_rx: &mut mpsc::Receiver<OutgoingFrame>,
        stop: &CancellationToken,
    ) -> Event {
        let function = self.callback.as_ref().map(|callback| callback.function.clone());
        let has_function = function.is_some();
        tokio::select! {
            () = stop.cancelled() => Event::End,
            () = wait_until_dropped(function) => Event::End,
            frame = self.connection.receive() => frame.map_or(Event::End, Event::Incoming),
            Some(done) = self.calls.join_next() => Event::CallFinished(done.ok().flatten()),
            frame = frames_rx.recv(), if !(has_function && frames_rx.is_closed()) => {
                frame.map_or(if has_function { Event::CallFinished(None) } else { Event::End }, Event::Outgoing)
            }
        }
    }

    /// Sends a frame. One that expects no reply is followed by a ping: its pong says that the
    /// gateway has handled it.
    async fn send_frame(&mut self, frame: OutgoingFrame) -> bool {
        let OutgoingFrame { fields, expects_reply, reply_tx } = frame;
        self.pending.remove_closed(oneshot::Sender::is_closed);
        // The receiver of a reply may be gone, here and below.
        if !self.pending.has_room() {
            let _ = reply_tx.send(Err("too many messages wait for a reply".to_owned()));
            return true;
        }
        if self.reply_limit.count(&fields) != LimitDecision::Send {
            let _ = reply_tx.send(Err("too many replies under one correlation".to_owned()));
            return true;
        }
        let frame = Value::Object(fields.clone());
        if let Err(error) = self.connection.send(fields, !expects_reply).await {
            let _ = reply_tx.send(Err(error.to_string()));
            return false;
        }
        match (expects_reply, correlation_id(&frame).map(str::to_owned)) {
            (true, Some(id)) => {
                let message_id = frame["id"].as_str().unwrap_or_default().to_owned();
                self.pending.add_reply(id, message_id, reply_tx);
            }
            (_, id) => self.pending.add_ping(id, reply_tx),
        }
        true
    }

    /// Sends the reply that the function returned.
    async fn send_reply(&mut self, mut fields: Map<String, Value>) -> bool {
        fields.entry("id").or_insert_with(|| json!(format!("msg-{}", uuid::Uuid::new_v4())));
        match self.reply_limit.count(&fields) {
            LimitDecision::Send => self.connection.send(fields, false).await.is_ok(),
            LimitDecision::Refuse => {
                tracing::warn!(receiver = ?fields.get("agent"), "too many replies under one correlation");
                self.connection.send(replies::to_limit_error(fields), false).await.is_ok()
            }
            LimitDecision::Drop => true,
        }
    }

    async fn handle_frame(&mut self, frame: Value) -> bool {
        match self.pending.classify(frame) {
            FrameClass::Reply(reply_tx, frame) => {
                let _ = reply_tx.send(Ok(Some(frame)));
                true
            }
            FrameClass::Pong(reply_tx, error) => {
                let _ = reply_tx.send(Ok(error));
                true
            }
            FrameClass::Stale => true,
            FrameClass::Unsolicited(frame) => self.queue_for_script(frame).await,
        }
    }

    /// Puts a frame into the inbox if its type is one that the function receives.
    async fn queue_for_script(&mut self, frame: Value) -> bool {
        use FrameType::{Broadcast, Decision, Event, Message, Proposal, Request, Status};
        let Some(callback) = &self.callback else { return true };
        let kind = frame["type"].as_str().and_then(FrameType::from_name);
        let is_wanted = match &callback.agent {
            Some(_) => matches!(kind, Some(Message | Request | Broadcast | Proposal | Decision)),
            None => matches!(kind, Some(Status | Event)),
        };
        if !is_wanted {
            return true;
        }
        let priority =
            frame["metadata"]["priority"].as_str().and_then(Priority::from_name).unwrap_or_default();
        match (self.inbox.push(priority, frame), &callback.agent) {
            (Err(frame), Some(agent)) if correlation_id(&frame).is_some() => {
                let message = format!("the inbox of {agent} is full");
                let busy = replies::error_reply(agent, &frame, ErrorCode::AgentBusy, &message);
                self.connection.send(busy, false).await.is_ok()
            }
            _ => true,
        }
    }

    /// Calls the function with frames of the inbox. A subscriber gets one at a time, in order.
    fn start_calls(&mut self) {
        let Some(callback) = &self.callback else { return };
        let calls_max = if callback.agent.is_some() { CONCURRENT_CALLS_MAX } else { 1 };
        while self.calls.len() < calls_max
            && let Some(frame) = self.inbox.pop()
        {
            let ends_exchange = self.reply_limit.ends_exchange(&frame);
            self.calls.spawn(call_function(callback.clone(), frame, ends_exchange));
        }
    }
}

async fn wait_until_dropped(function: Option<FunctionRef>) {
    match function {
        Some(function) => function.gone().await,
        None => std::future::pending().await,
    }
}

/// Calls the function and returns the reply to send, unless the frame ends its exchange.
async fn call_function(
    callback: ScriptCallback,
    frame: Value,
    ends_exchange: bool,
) -> Option<Map<String, Value>> {
    let result = match callback.function.call(vec![from_plain(frame.clone())], 0).await {
        Ok(value) => match to_plain(value) {
            Ok(value) => HandlerResult::Returned(value),
            Err(error) => HandlerResult::Threw(error.to_string()),
        },
        Err(error) => HandlerResult::Threw(error.own_message().to_owned()),
    };
    replies::build_reply(&callback.agent?, &frame, result).filter(|_| !ends_exchange)
}

//! Somebody who speaks to a gateway: a task that owns a line, does the errands of scripts on it, and hands what comes
//! in to a script's function.
//!
//! A registered agent and a subscription live as long as their function; a party without one lives for one call.

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::answer_limit::{AnswerLimit, Verdict};
use super::answers::{self, Outcome};
use super::codes::ErrorCode;
use super::correspondence::{Correspondence, Sorted, correlation};
use super::line::Line;
use super::parked::Parked;
use super::wire::{Priority, Type};
use crate::binding::FunctionRef;
use crate::protocol::plain::{from_plain, to_plain};

/// Errands that wait for a party.
const ERRANDS_QUEUED_MAX: usize = 64;

/// Messages that an agent's function works on at once; the others wait by their priority.
const CALLS_AT_ONCE_MAX: usize = 16;

/// What came of an errand: the answer or the error about it; nothing when all is well and no answer was asked for.
pub(crate) type Upshot = Result<Option<Value>, String>;

/// Something to be sent.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) fields: Map<String, Value>,
    pub(crate) wants_answer: bool,
    pub(crate) upshot_tx: oneshot::Sender<Upshot>,
}

/// The function of a script, and what it is for.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) function: FunctionRef,
    /// The agent that it is; one that only listens is none.
    pub(crate) agent: Option<String>,
}

/// Starts a party. It ends with its line, when it is stopped, or when nobody can give it an errand or be given a frame.
pub(crate) fn start(line: Line, script: Option<Script>, stop: CancellationToken) -> mpsc::Sender<Errand> {
    let (errands_tx, errands_rx) = mpsc::channel(ERRANDS_QUEUED_MAX);
    let party = Party {
        line,
        correspondence: Correspondence::default(),
        script,
        inbox: Parked::default(),
        calls: JoinSet::new(),
        answer_limit: AnswerLimit::default(),
    };
    tokio::spawn(party.run(errands_rx, stop));
    errands_tx
}

struct Party {
    line: Line,
    correspondence: Correspondence<oneshot::Sender<Upshot>>,
    script: Option<Script>,
    inbox: Parked<Value>,
    calls: JoinSet<Option<Map<String, Value>>>,
    answer_limit: AnswerLimit,
}

enum Happening {
    Errand(Errand),
    Frame(Value),
    Answer(Option<Map<String, Value>>),
    End,
}

impl Party {
    async fn run(mut self, mut errands_rx: mpsc::Receiver<Errand>, stop: CancellationToken) {
        loop {
            let happening = self.next(&mut errands_rx, &stop).await;
            let acted = match happening {
                Happening::Errand(errand) => self.undertake(errand).await,
                Happening::Frame(frame) => self.take(frame).await,
                Happening::Answer(Some(fields)) => self.answer(fields).await,
                Happening::Answer(None) => true,
                Happening::End => break,
            };
            if !acted && self.script.is_none() {
                break;
            }
            self.work();
        }
    }

    async fn next(&mut self, errands_rx: &mut mpsc::Receiver<Errand>, stop: &CancellationToken) -> Happening {
        let function = self.script.as_ref().map(|script| script.function.clone());
        let has_function = function.is_some();
        tokio::select! {
            () = stop.cancelled() => Happening::End,
            () = gone(function) => Happening::End,
            frame = self.line.next() => frame.map_or(Happening::End, Happening::Frame),
            Some(done) = self.calls.join_next() => Happening::Answer(done.ok().flatten()),
            errand = errands_rx.recv(), if !(has_function && errands_rx.is_closed()) => {
                errand.map_or(if has_function { Happening::Answer(None) } else { Happening::End }, Happening::Errand)
            }
        }
    }

    /// Sends something. Where no answer is wanted, a ping behind it tells when the gateway has dealt with it.
    async fn undertake(&mut self, errand: Errand) -> bool {
        let Errand { fields, wants_answer, upshot_tx } = errand;
        self.correspondence.forget(oneshot::Sender::is_closed);
        if !self.correspondence.has_room() {
            // Whoever waits may have gone, here and below.
            let _ = upshot_tx.send(Err("too many messages wait for an answer".to_owned()));
            return true;
        }
        if self.answer_limit.count(&fields) != Verdict::Send {
            let _ = upshot_tx.send(Err("too many answers under one correlation".to_owned()));
            return true;
        }
        let frame = Value::Object(fields.clone());
        let sent = self.line.send(fields, !wants_answer).await;
        if let Err(error) = sent {
            let _ = upshot_tx.send(Err(error.to_string()));
            return false;
        }
        match (wants_answer, correlation(&frame).map(str::to_owned)) {
            (true, Some(id)) => {
                let message_id = frame["id"].as_str().unwrap_or_default().to_owned();
                self.correspondence.asked(id, message_id, upshot_tx);
            }
            (_, id) => self.correspondence.pinged(id, upshot_tx),
        }
        true
    }

    /// Sends what the function returned.
    async fn answer(&mut self, mut fields: Map<String, Value>) -> bool {
        fields.entry("id").or_insert_with(|| json!(format!("msg-{}", uuid::Uuid::new_v4())));
        match self.answer_limit.count(&fields) {
            Verdict::Send => self.line.send(fields, false).await.is_ok(),
            Verdict::Refuse => {
                tracing::warn!(answer = ?fields.get("agent"), "too many answers under one correlation");
                self.line.send(answers::overrun(fields), false).await.is_ok()
            }
            Verdict::Drop => true,
        }
    }

    async fn take(&mut self, frame: Value) -> bool {
        match self.correspondence.sort(frame) {
            Sorted::Answer(upshot_tx, frame) => {
                let _ = upshot_tx.send(Ok(Some(frame)));
                true
            }
            Sorted::Echo(upshot_tx, error) => {
                let _ = upshot_tx.send(Ok(error));
                true
            }
            Sorted::Stale => true,
            Sorted::News(frame) => self.receive(frame).await,
        }
    }

    /// Puts a frame into the inbox, if it is for the script.
    async fn receive(&mut self, frame: Value) -> bool {
        use Type::{Broadcast, Decision, Event, Message, Proposal, Request, Status};
        let Some(script) = &self.script else { return true };
        let kind = frame["type"].as_str().and_then(Type::of);
        let is_wanted = match &script.agent {
            Some(_) => matches!(kind, Some(Message | Request | Broadcast | Proposal | Decision)),
            None => matches!(kind, Some(Status | Event)),
        };
        if !is_wanted {
            return true;
        }
        let priority = frame["metadata"]["priority"].as_str().and_then(Priority::of).unwrap_or_default();
        match (self.inbox.push(priority, frame), &script.agent) {
            (Err(frame), Some(agent)) if correlation(&frame).is_some() => {
                let message = format!("{agent} has too many messages to read");
                let busy = answers::failure(agent, &frame, ErrorCode::AgentBusy, &message);
                self.line.send(busy, false).await.is_ok()
            }
            _ => true,
        }
    }

    /// Lets the script work on what is in the inbox. One that listens hears things one by one, in their order.
    fn work(&mut self) {
        let Some(script) = &self.script else { return };
        let at_once = if script.agent.is_some() { CALLS_AT_ONCE_MAX } else { 1 };
        while self.calls.len() < at_once
            && let Some(frame) = self.inbox.pop()
        {
            let is_last = self.answer_limit.ends_with(&frame);
            self.calls.spawn(call(script.clone(), frame, is_last));
        }
    }
}

async fn gone(function: Option<FunctionRef>) {
    match function {
        Some(function) => function.gone().await,
        None => std::future::pending().await,
    }
}

/// Calls the function. What it returns is the answer, unless `is_last`: then none is due.
async fn call(script: Script, frame: Value, is_last: bool) -> Option<Map<String, Value>> {
    let outcome = match script.function.call(vec![from_plain(frame.clone())], 0).await {
        Ok(value) => match to_plain(value) {
            Ok(value) => Outcome::Returned(value),
            Err(error) => Outcome::Threw(error.to_string()),
        },
        Err(error) => Outcome::Threw(error.own_message().to_owned()),
    };
    answers::answer(&script.agent?, &frame, outcome).filter(|_| !is_last)
}

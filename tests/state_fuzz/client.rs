//! A client that comes and goes, and keeps account of what it was promised.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::link::{Asked, Ending, Link};
use super::operations::{functions_in, note, without_references};
use super::{Counts, count};

/// How long a request on an open connection may take to be answered. The limits of the server end each eval within half a
/// second; nine may stand before it, and the machine may have other work.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(120);

/// Messages of one packet.
const PACKET_MESSAGES_MAX: usize = 8;

/// Kinds of errors that say nothing of the outcome of a keyed eval: it was not taken, or the functions in its outcome could
/// not be handed out once more.
const NO_OUTCOME: [&str; 5] = ["QueueFull", "Busy", "NotReady", "InvalidRequest", "TooManyRefs"];

/// What is known of a keyed eval.
#[derive(Default)]
pub(crate) struct Keyed {
    pub(crate) code: String,
    runs: u32,
    outcome: Option<Value>,
}

pub(crate) struct Client {
    pub(crate) name: String,
    url: String,
    pub(crate) rng: fastrand::Rng,
    pub(crate) counts: Arc<Counts>,
    /// Goes up when the keys of the session are free again.
    pub(crate) epoch: u64,
    pub(crate) keys: HashMap<String, Keyed>,
    /// Id and token, to come back to the session.
    ticket: Option<Value>,
}

impl Client {
    pub(crate) fn new(name: String, url: String, rng: fastrand::Rng, counts: Arc<Counts>) -> Self {
        Self { name, url, rng, counts, epoch: 0, keys: HashMap::new(), ticket: None }
    }

    /// Makes traffic until then.
    pub(crate) async fn run(mut self, until: Instant) -> Result<(), String> {
        let outcome = self.make_traffic(until).await;
        outcome.map_err(|failure| format!("client {}: {failure}", self.name))
    }

    async fn make_traffic(&mut self, until: Instant) -> Result<(), String> {
        while Instant::now() < until {
            let Some(mut link) = self.connect().await? else { continue };
            let packets = self.rng.usize(1..40);
            let mut is_open = true;
            for _ in 0..packets {
                if !is_open || Instant::now() >= until {
                    break;
                }
                is_open = match self.rng.u8(0..40) {
                    0 => self.take_over(&mut link).await?,
                    1 => self.quiesce(&mut link).await?,
                    _ => self.exchange(&mut link).await?,
                };
            }
            if is_open {
                self.quiesce(&mut link).await?;
            }
        }
        Ok(())
    }

    /// A connection, mostly to the session of before; `None` when the server has no room.
    async fn connect(&mut self) -> Result<Option<Link>, String> {
        let mut link = Link::open(&self.url).await?;
        count(&self.counts.connects);
        let mut resume = self.ticket.clone().filter(|_| self.rng.u8(0..8) > 0);
        loop {
            let mut packet = vec![self.handshake(&mut link, resume.as_ref())];
            // Some do not wait for the answer.
            if self.rng.u8(0..4) == 0 {
                packet.push(link.request("eval", json!({"code": "() => 1"}), Asked::Plain("eval")));
            }
            let ending = if self.rng.u8(0..12) == 0 { self.ending() } else { Ending::Open };
            if !link.send(packet, ending).await {
                return Ok(None);
            }
            while link.asked.values().any(|asked| matches!(asked, Asked::Handshake { .. })) {
                if !self.receive(&mut link, ANSWER_WAIT_MAX).await? {
                    return Ok(None);
                }
            }
            match (link.is_live, resume.take()) {
                (true, _) => return Ok(self.entangle(&mut link).await?.then_some(link)),
                // The session is over: the next one, on the same connection.
                (false, Some(_)) => {
                    self.ticket = None;
                    self.epoch += 1;
                }
                (false, None) => return Ok(None),
            }
        }
    }

    /// Puts functions on both sides, in most sessions; `false` when the connection is over.
    async fn entangle(&mut self, link: &mut Link) -> Result<bool, String> {
        if self.rng.u8(0..4) == 0 {
            return Ok(true);
        }
        let code = "globalThis.keep = (x) => { (globalThis.kept ??= []).push(x); return x; }; keep";
        let eval = link.request("eval", json!({"code": code}), Asked::Plain("eval"));
        Ok(link.send(vec![eval], Ending::Open).await && self.quiesce(link).await?)
    }

    fn handshake(&mut self, link: &mut Link, resume: Option<&Value>) -> String {
        let mut params = json!({"protocol": "0.1", "bindings": [{"name": "ask"}, {"name": "ran"}]});
        if self.rng.bool()
            && let Some(bindings) = params["bindings"].as_array_mut()
        {
            bindings.push(json!({"name": "console.write"}));
        }
        if let Some(ticket) = resume {
            params["session"] = ticket.clone();
        } else {
            self.epoch += 1;
        }
        link.request("handshake", params, Asked::Handshake { resumes: resume.is_some() })
    }

    fn ending(&mut self) -> Ending {
        count(&self.counts.abrupt_ends);
        match self.rng.u8(0..4) {
            0 => Ending::Close,
            1 => Ending::Reset,
            _ => Ending::Drop,
        }
    }

    /// Sends a packet and reads for a moment; `false` when the connection is over.
    async fn exchange(&mut self, link: &mut Link) -> Result<bool, String> {
        let mut packet = self.answers(link, false);
        let epoch = self.epoch;
        for _ in 0..self.rng.usize(0..=PACKET_MESSAGES_MAX) {
            packet.push(self.message(link));
        }
        // A session that starts over or ends while its connection does is the hardest case.
        let ends = self.rng.u8(0..if self.epoch == epoch { 12 } else { 2 }) == 0;
        let ending = if ends { self.ending() } else { Ending::Open };
        count(&self.counts.packets);
        if !link.send(packet, ending).await {
            return Ok(false);
        }
        let until = Instant::now() + Duration::from_millis(self.rng.u64(0..40));
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.receive(link, left).await {
                Ok(true) => {}
                other => return other,
            }
        }
        Ok(true)
    }

    /// Answers to what the server asks: to all of it when honest, otherwise to some.
    fn answers(&mut self, link: &mut Link, is_honest: bool) -> Vec<String> {
        let calls = std::mem::take(&mut link.calls);
        let mut texts = Vec::new();
        for call in calls {
            if is_honest || self.rng.u8(0..4) > 0 {
                texts.extend(self.answer(&call, is_honest));
            } else {
                link.calls.push(call);
            }
        }
        texts
    }

    /// Waits until everything that was asked is answered; `false` when the connection is over.
    async fn quiesce(&mut self, link: &mut Link) -> Result<bool, String> {
        let deadline = Instant::now() + ANSWER_WAIT_MAX;
        while !link.asked.is_empty() {
            let answers = self.answers(link, true);
            if !link.send(answers, Ending::Open).await {
                return Ok(false);
            }
            if !self.receive(link, Duration::from_millis(500)).await? {
                return Ok(false);
            }
            if Instant::now() > deadline {
                return Err(format!("never answered: {:?}", link.asked));
            }
        }
        Ok(true)
    }

    /// Another connection takes the session over; the old one goes on for a moment, as one that does not know yet.
    async fn take_over(&mut self, link: &mut Link) -> Result<bool, String> {
        let Some(ticket) = self.ticket.clone() else { return Ok(true) };
        count(&self.counts.take_overs);
        let mut next = Link::open(&self.url).await?;
        let handshake = self.handshake(&mut next, Some(&ticket));
        let mut last = vec![link.request("eval", json!({"code": "() => 1"}), Asked::Plain("eval"))];
        last.extend(self.answers(link, false));
        let (_, is_sent) =
            tokio::join!(link.send(last, Ending::Open), next.send(vec![handshake], Ending::Open));
        if !is_sent {
            return Ok(false);
        }
        while !next.asked.is_empty() {
            if !self.receive(&mut next, ANSWER_WAIT_MAX).await? {
                return Ok(false);
            }
        }
        // What the old one still gets has to make sense too.
        while self.receive(link, Duration::from_millis(5)).await? && self.rng.bool() {}
        *link = next;
        Ok(link.is_live)
    }

    /// Takes one message in, if one comes in time; `false` when the connection is over.
    async fn receive(&mut self, link: &mut Link, wait: Duration) -> Result<bool, String> {
        let text = match link.text(wait).await {
            Err(()) => return Ok(false),
            Ok(None) if wait == ANSWER_WAIT_MAX => return Err(format!("no answer: {:?}", link.asked)),
            Ok(None) => return Ok(true),
            Ok(Some(text)) => text,
        };
        let message: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        functions_in(&message, &mut link.functions);
        link.functions.truncate(100);
        if message.get("method").is_none() {
            count(&self.counts.answers);
            if let Some(asked) = link.settle(&message)? {
                self.accept_answer(link, &asked, message)?;
            }
            return Ok(true);
        }
        // The one notification is `release_ref`.
        if message.get("id").is_some() {
            count(&self.counts.calls);
            self.count_run(&message)?;
            link.accept_call(message)?;
        }
        Ok(true)
    }

    /// Each keyed eval says when it runs.
    fn count_run(&mut self, call: &Value) -> Result<(), String> {
        if call.pointer("/params/binding") != Some(&json!("ran")) {
            return Ok(());
        }
        let key = call.pointer("/params/input/key").and_then(Value::as_str).unwrap_or_default();
        let keyed = self.keys.get_mut(key).ok_or_else(|| format!("an eval ran that was not sent: {call}"))?;
        count(&self.counts.keyed_runs);
        keyed.runs += 1;
        match keyed.runs {
            1 => Ok(()),
            runs => Err(format!("the keyed eval {key} ran {runs} times: {}", keyed.code)),
        }
    }

    fn accept_answer(&mut self, link: &mut Link, asked: &Asked, message: Value) -> Result<(), String> {
        note(&message, &self.counts.lost_sessions);
        match asked {
            Asked::Plain(_) => Ok(()),
            Asked::Keyed(key) => self.accept_outcome(key, message),
            Asked::Handshake { resumes } => {
                if let Some(result) = message.get("result") {
                    link.is_live = true;
                    let session = &result["metadata"]["session"];
                    if session["resumed"] != json!(*resumes) {
                        return Err(format!("resumed is wrong: {message}"));
                    }
                    if *resumes {
                        count(&self.counts.resumes);
                    }
                    self.ticket = Some(json!({"id": result["sessionId"], "token": session["token"]}));
                }
                Ok(())
            }
        }
    }

    /// Every answer to a keyed eval is the same.
    fn accept_outcome(&mut self, key: &str, mut message: Value) -> Result<(), String> {
        let kind = message.pointer("/error/data/kind").and_then(Value::as_str).unwrap_or_default();
        if NO_OUTCOME.contains(&kind) {
            return Ok(());
        }
        if kind == "KeyConflict" {
            return Err(format!("the same key and code, and yet: {message}"));
        }
        without_references(&mut message);
        message["id"] = Value::Null;
        let keyed = self.keys.entry(key.to_owned()).or_default();
        match &keyed.outcome {
            Some(before) if *before != message => {
                Err(format!("the keyed eval {key} has two outcomes: {before} and {message}"))
            }
            Some(_) => Ok(()),
            None => {
                keyed.outcome = Some(message);
                Ok(())
            }
        }
    }
}

//! What was sent over a link and is not settled yet, so that every frame that comes back finds what it is about.
//!
//! A gateway like ours repeats the correlation of what it answers. The reference gateway of the specification (11.2)
//! repeats it in messages of agents only: its other answers are known by their type, its errors by their place. So
//! every frame is followed by a fence, a frame that the gateway answers whatever came before. An error without a
//! correlation is about the frame before the first fence that is not answered yet.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::super::correspondence::correlation;
use super::super::wire::{self, Type};
use super::LineNumber;

/// Questions and fences of all lines of a link that are not settled. A gateway that owes this many does not answer;
/// one more frame is refused with 3003.
pub(super) const OUTSTANDING_MAX: usize = 8192;

/// A frame that waits for an answer.
#[derive(Debug)]
struct Question {
    line: LineNumber,
    kind: Type,
    /// The agent that it was sent to.
    agent: Option<String>,
    /// Its place in the order of all questions.
    number: u64,
    /// It came back to us, because the agent that was asked is at the same link.
    is_delivered: bool,
}

/// What a fence stands behind.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) line: Option<LineNumber>,
    pub(super) correlation_id: Option<String>,
    /// It was a handshake, which is acknowledged like a fence that is one.
    is_handshake: bool,
    is_question: bool,
}

#[derive(Debug)]
struct Fence {
    correlation_id: String,
    subject: Subject,
    /// Whether the line wants to know that the gateway has dealt with the subject.
    is_notified: bool,
}

/// What a frame from the gateway is.
#[derive(Debug, PartialEq)]
pub(super) enum Match {
    /// It settles something of a line, or is about it.
    Line(LineNumber),
    /// These lines are notified that the gateway has dealt with what they sent.
    Fences(Vec<LineNumber>),
    /// It answers nothing of ours.
    News,
    /// An acknowledgement that no line waits for.
    Ignored,
}

#[derive(Debug, Default)]
pub(super) struct Outstanding {
    questions: HashMap<String, Question>,
    fences: VecDeque<Fence>,
    questions_asked: u64,
    fences_set: u64,
}

impl Outstanding {
    pub(super) fn has_room(&self) -> bool {
        self.questions.len() + self.fences.len() < OUTSTANDING_MAX
    }

    /// Notes a frame that is sent for a line, and returns the correlation of the fence to be sent behind it.
    pub(super) fn note(&mut self, line: Option<LineNumber>, frame: &Value, is_notified: bool) -> String {
        let kind = frame["type"].as_str().and_then(Type::of);
        let correlation_id = correlation(frame).map(str::to_owned);
        // An answer has a correlation, too, but it names what it answers.
        let is_question = asks(kind) && frame["metadata"]["parentId"].is_null();
        if let (Some(kind), Some(id), Some(line), true) = (kind, &correlation_id, line, is_question) {
            self.questions_asked += 1;
            let agent = frame["agent"].as_str().map(str::to_owned);
            let number = self.questions_asked;
            let question = Question { line, kind, agent, number, is_delivered: false };
            self.questions.insert(id.clone(), question);
        }
        let is_handshake = kind == Some(Type::Handshake);
        let subject = Subject { line, correlation_id, is_handshake, is_question };
        self.fences_set += 1;
        let correlation_id = format!("fence-{}", self.fences_set);
        self.fences.push_back(Fence { correlation_id: correlation_id.clone(), subject, is_notified });
        correlation_id
    }

    /// Finds out what a frame is about. A frame that was recognised without a correlation is given the one of its
    /// question. `is_ours` says whether an agent is at this link.
    pub(super) fn sort(&mut self, frame: &mut Value, is_ours: impl Fn(&str) -> bool) -> Match {
        let Some(kind) = frame["type"].as_str().and_then(Type::of) else { return Match::Ignored };
        let id = correlation(frame).map(str::to_owned);
        if let Some(id) = &id {
            if let Some(found) = self.by_correlation(id, kind, frame, is_ours) {
                return found;
            }
            if let Some(at) = self.fences.iter().position(|fence| fence.correlation_id == *id) {
                return self.pass(at);
            }
        }
        match kind {
            Type::Pong => self.pass(0),
            Type::Handshake => self.on_acknowledgement(id.is_some()),
            Type::Error => self.on_error(id.as_deref(), frame),
            Type::Discovery | Type::Workspace | Type::Subscribe | Type::Unsubscribe | Type::AuthResponse => {
                self.on_answer_of(kind, frame)
            }
            _ => Match::News,
        }
    }

    /// Forgets what a line asked.
    pub(super) fn forget(&mut self, line: LineNumber) {
        self.questions.retain(|_, question| question.line != line);
    }

    /// Takes everything out: the questions with their lines, and the lines that wait at a fence.
    pub(super) fn take_all(&mut self) -> (Vec<(LineNumber, String)>, Vec<LineNumber>) {
        let questions = self.questions.drain().map(|(id, question)| (question.line, id)).collect();
        let notified = self.fences.drain(..).filter(|fence| fence.is_notified);
        (questions, notified.filter_map(|fence| fence.subject.line).collect())
    }

    fn by_correlation(
        &mut self,
        id: &str,
        kind: Type,
        frame: &Value,
        is_ours: impl Fn(&str) -> bool,
    ) -> Option<Match> {
        use Type::{Broadcast, Event, Handshake, Ping, Pong, Proposal, Request, Vote};
        if matches!(kind, Broadcast | Event | Handshake | Ping | Pong | Proposal | Request | Vote) {
            return None;
        }
        let question = self.questions.get_mut(id)?;
        // An agent of ours was asked over the link that it is at: the question comes back before the answer.
        let is_question = kind == question.kind
            && !question.is_delivered
            && frame["metadata"]["parentId"].is_null()
            && frame["agent"].as_str() == question.agent.as_deref()
            && question.agent.as_deref().is_some_and(is_ours);
        if is_question {
            question.is_delivered = true;
            return Some(Match::News);
        }
        let line = question.line;
        // Word that a message waits for its agent is not the answer.
        if frame["content"]["queued"] != true {
            self.questions.remove(id);
        }
        Some(Match::Line(line))
    }

    /// The fences up to that one are passed: the gateway answers in order.
    fn pass(&mut self, last: usize) -> Match {
        let count = self.fences.len().min(last + 1);
        let passed = self.fences.drain(..count).filter(|fence| fence.is_notified);
        Match::Fences(passed.filter_map(|fence| fence.subject.line).collect())
    }

    fn on_acknowledgement(&mut self, has_correlation: bool) -> Match {
        match self.fences.front_mut() {
            Some(fence) if !has_correlation && fence.subject.is_handshake => {
                fence.subject.is_handshake = false;
                Match::Ignored
            }
            Some(_) if !has_correlation => self.pass(0),
            _ => Match::Ignored,
        }
    }

    fn on_error(&mut self, id: Option<&str>, frame: &mut Value) -> Match {
        let about = |fence: &Fence| id.is_none() || fence.subject.correlation_id.as_deref() == id;
        let Some(fence) = self.fences.iter_mut().find(|fence| about(fence)) else { return Match::Ignored };
        fence.subject.is_handshake = false;
        let subject = fence.subject.clone();
        if let Some(id) = &subject.correlation_id {
            wire::correlate(frame, id);
            if subject.is_question {
                self.questions.remove(id);
            }
        }
        subject.line.map_or(Match::Ignored, Match::Line)
    }

    /// Answers without a correlation come in the order of their questions.
    fn on_answer_of(&mut self, kind: Type, frame: &mut Value) -> Match {
        let asked = self.questions.iter().filter(|(_, question)| question.kind == kind);
        let Some(id) = asked.min_by_key(|(_, question)| question.number).map(|(id, _)| id.clone()) else {
            return Match::Ignored;
        };
        wire::correlate(frame, &id);
        self.questions.remove(&id).map_or(Match::Ignored, |question| Match::Line(question.line))
    }
}

/// Whether a frame of that type is answered under its correlation.
fn asks(kind: Option<Type>) -> bool {
    use Type::{Auth, Broadcast, Discovery, Message, Proposal, Request, Subscribe, Workspace};
    matches!(kind, Some(Message | Request | Proposal | Broadcast | Discovery | Workspace | Subscribe | Auth))
}

#[cfg(test)]
mod tests;

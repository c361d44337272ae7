//! What waits in the session until the client has answered earlier calls.
//!
//! A client has at most `client_calls_open_max` calls to answer, and as many console lines. Calls past that wait here,
//! within their own time. Lines past it wait in order, and the answer of an eval stays behind the lines it printed.
//! Lines have places of their own, so that slow tools do not hold up the console.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::protocol::methods::Payload;
use crate::protocol::peer;
use crate::rpc::{ErrorObject, Kind};
use crate::session::{Answer, Requester};

/// Calls that wait for a place. An eval makes at most `calls_per_eval_max`, but a promise that is not awaited outlives
/// its eval. Past it: `Busy`.
const CALLS_HELD_MAX: usize = 16_384;

/// Bytes of their payloads, as JSON: the longest message twice over. Past it: `Busy`.
const CALLS_HELD_BYTES_MAX: usize = 32 << 20;

/// Lines in one batch, and bytes of their texts: small enough that a client reads a batch without a pause, large enough
/// that the lines of an ordinary script fit into one.
const BATCH_LINES_MAX: usize = 1_000;
const BATCH_BYTES_MAX: usize = 256 << 10;

/// A console line, or what must not overtake it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum OutboxItem {
    /// The input of `console.write`.
    Line(Value),
    /// The answer of an eval that printed the lines before it.
    Answer(Requester, Answer),
}

/// See the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outbox {
    open_max: usize,
    calls_open: usize,
    lines_open: usize,
    /// In the order in which they were made, which is that of their numbers.
    held_calls: BTreeSet<u64>,
    held_bytes: usize,
    ordered: VecDeque<OutboxItem>,
}

impl Outbox {
    /// Room for `open_max` calls at the client, and as many lines.
    pub(crate) fn new(open_max: usize) -> Self {
        Self {
            open_max: open_max.clamp(1, peer::CALLS_WAITING_MAX / 2),
            calls_open: 0,
            lines_open: 0,
            held_calls: BTreeSet::new(),
            held_bytes: 0,
            ordered: VecDeque::new(),
        }
    }

    /// Whether a call may be sent without overtaking another.
    pub(crate) fn has_room_for_call(&self) -> bool {
        self.calls_open < self.open_max && self.held_calls.is_empty()
    }

    /// Holds a call back and returns the bytes that it takes.
    pub(crate) fn hold_call(&mut self, number: u64, payload: &Payload) -> Result<usize, ErrorObject> {
        let bytes = serde_json::to_vec(payload).map_or(1, |text| text.len());
        if self.held_calls.len() >= CALLS_HELD_MAX || self.held_bytes + bytes > CALLS_HELD_BYTES_MAX {
            return Err(ErrorObject::new(Kind::Busy, "too many calls wait for the client"));
        }
        self.held_calls.insert(number);
        self.held_bytes += bytes;
        Ok(bytes)
    }

    /// A call that was held back is sent, or over.
    pub(crate) fn forget_held(&mut self, number: u64, bytes: usize) {
        self.held_calls.remove(&number);
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
    }

    /// Counts a call or a line that was sent.
    pub(crate) fn note_sent(&mut self, is_line: bool) {
        *self.open(is_line) += 1;
    }

    /// It is answered or given up.
    pub(crate) fn note_over(&mut self, is_line: bool) {
        let open = self.open(is_line);
        *open = open.saturating_sub(1);
    }

    fn open(&mut self, is_line: bool) -> &mut usize {
        if is_line { &mut self.lines_open } else { &mut self.calls_open }
    }

    /// Adds a line or an answer behind the lines that wait.
    pub(crate) fn push(&mut self, item: OutboxItem) {
        self.ordered.push_back(item);
    }

    /// Whether console lines wait.
    pub(crate) fn holds_lines(&self) -> bool {
        !self.ordered.is_empty()
    }

    /// Drops everything that waits, because the connection is gone; returns the requests that are not answered.
    pub(crate) fn clear(&mut self) -> Vec<Requester> {
        self.held_calls.clear();
        self.take_answers().into_iter().map(|(requester, _)| requester).collect()
    }

    /// The next call that was held back, if there is a place for it.
    pub(crate) fn next_call(&mut self) -> Option<u64> {
        if self.calls_open < self.open_max { self.held_calls.pop_first() } else { None }
    }

    /// The next line or answer that may be sent. With `batches`, lines that wait go together, and the next ones when
    /// these are answered.
    pub(crate) fn next_item(&mut self, batches: bool) -> Option<OutboxItem> {
        let lines_max = if batches { 1 } else { self.open_max };
        match self.ordered.front()? {
            OutboxItem::Line(_) if self.lines_open >= lines_max => None,
            OutboxItem::Line(_) if batches => Some(self.next_batch()),
            OutboxItem::Line(_) | OutboxItem::Answer(..) => self.ordered.pop_front(),
        }
    }

    /// The lines in front, as one input of `console.write`.
    fn next_batch(&mut self) -> OutboxItem {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(OutboxItem::Line(line)) = self.ordered.front() {
            bytes += line["text"].as_str().map_or(0, str::len);
            let is_full = entries.len() >= BATCH_LINES_MAX || bytes > BATCH_BYTES_MAX;
            if is_full && !entries.is_empty() {
                break;
            }
            if let Some(OutboxItem::Line(line)) = self.ordered.pop_front() {
                entries.push(line);
            }
        }
        OutboxItem::Line(json!({"entries": entries}))
    }

    /// Takes the answers that wait behind lines; the lines are dropped.
    pub(crate) fn take_answers(&mut self) -> Vec<(Requester, Answer)> {
        let answers = std::mem::take(&mut self.ordered).into_iter().filter_map(|item| match item {
            OutboxItem::Answer(requester, answer) => Some((requester, answer)),
            OutboxItem::Line(_) => None,
        });
        answers.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(bytes: usize) -> Payload {
        // `{"input":""}` around it.
        Payload::Input(Value::String("x".repeat(bytes - 12)))
    }

    #[test]
    fn outbox_full_holds_the_next_call_and_is_busy_past_limits() {
        let mut outbox = Outbox::new(1);
        assert!(outbox.has_room_for_call());
        outbox.note_sent(false);
        assert!(!outbox.has_room_for_call());
        for number in 0..CALLS_HELD_MAX as u64 {
            assert_eq!(outbox.hold_call(number, &payload(20)), Ok(20));
        }
        assert!(outbox.hold_call(1, &payload(20)).unwrap_err().is(Kind::Busy));
        assert_eq!(outbox.next_call(), None);
        outbox.note_over(false);
        assert_eq!(outbox.next_call(), Some(0));
        assert!(!outbox.has_room_for_call(), "it would overtake the others");
    }

    fn batch_sizes(texts: impl Iterator<Item = String>) -> Vec<usize> {
        let mut outbox = Outbox::new(1);
        for text in texts {
            outbox.push(OutboxItem::Line(json!({"text": text})));
        }
        let mut sizes = Vec::new();
        while let Some(OutboxItem::Line(batch)) = outbox.next_item(true) {
            sizes.push(batch["entries"].as_array().map_or(0, Vec::len));
        }
        sizes
    }

    #[test]
    fn batch_has_as_many_lines_and_bytes_as_it_may() {
        assert_eq!(batch_sizes((0..=BATCH_LINES_MAX).map(|_| String::new())), [BATCH_LINES_MAX, 1]);
        let half = || "x".repeat(BATCH_BYTES_MAX / 2);
        assert_eq!(batch_sizes([half(), half(), "y".into()].into_iter()), [2, 1]);
        let long = "x".repeat(BATCH_BYTES_MAX + 1);
        assert_eq!(batch_sizes([long, "y".into()].into_iter()), [1, 1]);
    }

    #[test]
    fn batch_waits_for_the_answer_to_the_one_before() {
        let mut outbox = Outbox::new(8);
        outbox.push(OutboxItem::Line(json!({"text": "a"})));
        assert!(outbox.next_item(true).is_some());
        outbox.note_sent(true);
        outbox.push(OutboxItem::Line(json!({"text": "b"})));
        assert!(outbox.next_item(true).is_none());
        outbox.note_over(true);
        assert!(outbox.next_item(true).is_some());
    }

    #[test]
    fn outbox_bytes_are_free_again_when_a_call_is_over() {
        let mut outbox = Outbox::new(1);
        assert_eq!(outbox.hold_call(1, &payload(CALLS_HELD_BYTES_MAX)), Ok(CALLS_HELD_BYTES_MAX));
        assert!(outbox.hold_call(2, &payload(13)).unwrap_err().is(Kind::Busy));
        outbox.forget_held(1, CALLS_HELD_BYTES_MAX);
        assert_eq!(outbox.next_call(), None);
        assert_eq!(outbox.hold_call(2, &payload(13)), Ok(13));
    }

    #[test]
    fn outbox_places_are_at_least_one_and_fit_the_id_table() {
        assert_eq!(Outbox::new(0).open_max, 1);
        assert_eq!(Outbox::new(8_192).open_max, 8_192);
        assert_eq!(Outbox::new(8_193).open_max, 8_192);
    }
}

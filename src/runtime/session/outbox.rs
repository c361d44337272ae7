//! What waits in the session until the client has answered earlier calls.
//!
//! A client has at most `client_calls_open_max` calls to answer, and as many console lines. Calls past that wait here,
//! within their own time. Lines past it wait in order, and the answer of an eval stays behind the lines it printed.
//! Lines have places of their own, so that slow tools do not hold up the console.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::Session;
use super::client_calls::Waiter;
use super::evals::{Answer, Requester};
use crate::protocol::methods::{Payload, Target};
use crate::protocol::names::CONSOLE_WRITE;
use crate::protocol::peer;
use crate::rpc::{ErrorObject, Kind};

/// Calls that wait for a place. An eval makes at most `calls_per_eval_max`, but a promise that nobody awaits outlives
/// its eval. Past it: `Busy`.
const CALLS_HELD_MAX: usize = 16_384;

/// Bytes of their payloads, as JSON: the longest message twice over. Past it: `Busy`.
const CALLS_HELD_BYTES_MAX: usize = 32 << 20;

/// A console line, or what must not overtake it.
enum Ordered {
    Line(Value),
    Answer(Requester, Answer),
}

/// See the module.
pub(crate) struct Outbox {
    open_max: usize,
    calls_open: usize,
    lines_open: usize,
    held_calls: VecDeque<u64>,
    held_bytes: usize,
    ordered: VecDeque<Ordered>,
}

impl Outbox {
    /// Room for `open_max` calls at the client, and as many lines.
    pub(crate) fn new(open_max: usize) -> Self {
        Self {
            open_max: open_max.clamp(1, peer::CALLS_WAITING_MAX / 2),
            calls_open: 0,
            lines_open: 0,
            held_calls: VecDeque::new(),
            held_bytes: 0,
            ordered: VecDeque::new(),
        }
    }

    /// Whether a call may be sent without overtaking another.
    pub(crate) fn has_room_for_call(&self) -> bool {
        self.calls_open < self.open_max && self.held_calls.is_empty()
    }

    /// Holds a call back; the bytes that it takes, or why there is no room even here.
    pub(crate) fn hold_call(&mut self, number: u64, payload: &Payload) -> Result<usize, ErrorObject> {
        let bytes = serde_json::to_vec(payload).map_or(1, |text| text.len());
        if self.held_calls.len() >= CALLS_HELD_MAX || self.held_bytes + bytes > CALLS_HELD_BYTES_MAX {
            return Err(ErrorObject::new(Kind::Busy, "too many calls wait for the client"));
        }
        self.held_calls.push_back(number);
        self.held_bytes += bytes;
        Ok(bytes)
    }

    /// A call that was held back is sent, or over.
    pub(crate) fn forget_held(&mut self, bytes: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
    }

    /// A call or a line was sent.
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

    /// Whether console lines wait.
    pub(crate) fn holds_lines(&self) -> bool {
        !self.ordered.is_empty()
    }

    /// The connection is gone, and what waited for it.
    pub(crate) fn clear(&mut self) {
        self.held_calls.clear();
        self.ordered.clear();
    }

    fn next_call(&mut self) -> Option<u64> {
        if self.calls_open < self.open_max { self.held_calls.pop_front() } else { None }
    }

    fn next_ordered(&mut self) -> Option<Ordered> {
        let may_go = match self.ordered.front()? {
            Ordered::Line(_) => self.lines_open < self.open_max,
            Ordered::Answer(..) => true,
        };
        if may_go { self.ordered.pop_front() } else { None }
    }
}

impl Session {
    /// Sends console lines to a client that wants them as they come.
    pub(crate) async fn stream_console(&mut self) {
        let lines = self.engine.guest.console.borrow_mut().take_unsent();
        if lines.is_empty() {
            return;
        }
        let eval_id = self.dispatcher.eval_id.borrow().clone().unwrap_or_default();
        for line in lines {
            let mut input = json!(line);
            input["evalId"] = eval_id.clone();
            self.outbox.ordered.push_back(Ordered::Line(input));
        }
        self.send_held().await;
    }

    /// Answers an eval, after the lines that it printed.
    pub(crate) async fn answer_in_order(&mut self, requester: Requester, answer: Answer) {
        if self.outbox.holds_lines() {
            self.outbox.ordered.push_back(Ordered::Answer(requester, answer));
        } else {
            self.answer(&requester, answer).await;
        }
    }

    /// Sends what was held back, as far as there are places.
    pub(crate) async fn send_held(&mut self) {
        while let Some(number) = self.outbox.next_call() {
            self.send_held_call(number).await;
        }
        while let Some(ordered) = self.outbox.next_ordered() {
            match ordered {
                Ordered::Line(input) => {
                    let target = Target::Binding(CONSOLE_WRITE.to_owned());
                    self.call_client(Waiter::Nobody, target, Payload::Input(input), 0).await;
                }
                Ordered::Answer(requester, answer) => self.answer(&requester, answer).await,
            }
        }
    }

    /// The session ends: its answers go out although lines before them do not.
    pub(crate) async fn send_held_answers(&mut self) {
        for ordered in std::mem::take(&mut self.outbox.ordered) {
            if let Ordered::Answer(requester, answer) = ordered {
                self.answer(&requester, answer).await;
            }
        }
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
    fn outbox_full_of_calls_holds_the_next_and_is_busy_past_the_limits() {
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

    #[test]
    fn outbox_bytes_are_free_again_when_a_call_is_over() {
        let mut outbox = Outbox::new(1);
        assert_eq!(outbox.hold_call(1, &payload(CALLS_HELD_BYTES_MAX)), Ok(CALLS_HELD_BYTES_MAX));
        assert!(outbox.hold_call(2, &payload(13)).unwrap_err().is(Kind::Busy));
        outbox.forget_held(CALLS_HELD_BYTES_MAX);
        assert_eq!(outbox.hold_call(2, &payload(13)), Ok(13));
    }

    #[test]
    fn outbox_places_are_at_least_one_and_fit_the_id_table() {
        assert_eq!(Outbox::new(0).open_max, 1);
        assert_eq!(Outbox::new(8_192).open_max, 8_192);
        assert_eq!(Outbox::new(8_193).open_max, 8_192);
    }
}

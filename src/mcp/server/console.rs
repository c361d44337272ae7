//! The console of a session, of which every line is returned once.
//!
//! Lines arrive twice: as they are printed, and with the answer of the eval. The two may arrive in either order, so lines
//! are counted: what an answer brought first is skipped when it arrives by itself.

use std::collections::VecDeque;

use crate::client::ConsoleLine;

/// Bytes of lines that wait to be returned. As much as a model would ever read; of more the oldest lines are dropped.
pub(super) const PENDING_BYTES_MAX: usize = 256 << 10;

/// What a line costs beside its text, so that empty lines are bounded too.
const LINE_OVERHEAD_BYTES: usize = 32;

/// The lines of a session that were not returned yet.
#[derive(Debug, Default)]
pub(super) struct ConsoleBuffer {
    pending: VecDeque<(u64, String)>,
    bytes: usize,
    dropped: u64,
    /// Lines that arrived as they were printed since the last answer.
    streamed: usize,
    /// Lines that an answer brought before they arrived by themselves.
    overtaken: usize,
}

/// New output of an execution.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NewOutput {
    pub(super) text: String,
    /// Lines that are missing before it.
    pub(super) dropped: u64,
}

impl ConsoleBuffer {
    /// A line was printed by that eval.
    pub(super) fn on_line(&mut self, eval: u64, line: &ConsoleLine) {
        if self.overtaken > 0 {
            self.overtaken -= 1;
            return;
        }
        self.streamed += 1;
        self.push(eval, line);
    }

    /// That eval was answered, with all lines since the last answer.
    pub(super) fn on_answer(&mut self, eval: u64, lines: &[ConsoleLine], dropped: u64) {
        let rest = lines.get(self.streamed..).unwrap_or_default();
        for line in rest {
            self.push(eval, line);
        }
        self.overtaken += rest.len();
        self.streamed = self.streamed.saturating_sub(lines.len());
        self.dropped += dropped;
    }

    fn push(&mut self, eval: u64, line: &ConsoleLine) {
        let text = match line.level.as_str() {
            "warn" | "error" => format!("[{}] {}", line.level, line.text),
            _ => line.text.clone(),
        };
        self.bytes += text.len() + LINE_OVERHEAD_BYTES;
        self.pending.push_back((eval, text));
        while self.bytes > PENDING_BYTES_MAX
            && let Some((_, oldest)) = self.pending.pop_front()
        {
            self.bytes -= oldest.len() + LINE_OVERHEAD_BYTES;
            self.dropped += 1;
        }
    }

    /// Takes what is new for that eval: its own lines, and those of evals that no execution runs any more. At most
    /// `bytes_max` of them, the latest.
    pub(super) fn take(&mut self, eval: u64, runs: impl Fn(u64) -> bool, bytes_max: usize) -> NewOutput {
        let is_taken = |owner: u64| owner == eval || !runs(owner);
        let (taken, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(|(owner, _)| is_taken(*owner));
        self.pending = kept;
        self.bytes = self.pending.iter().map(|(_, text)| text.len() + LINE_OVERHEAD_BYTES).sum();
        let mut dropped = std::mem::take(&mut self.dropped);
        let mut room = bytes_max;
        let shown = taken.iter().rev().take_while(|(_, text)| {
            let fits = text.len() < room;
            room = room.saturating_sub(text.len() + 1);
            fits
        });
        let count = shown.count();
        dropped += (taken.len() - count) as u64;
        let texts: Vec<String> = taken.into_iter().rev().take(count).map(|(_, text)| text).collect();
        let text = texts.into_iter().rev().collect::<Vec<_>>().join("\n");
        NewOutput { text, dropped }
    }

    /// The line that was printed last and is not returned yet.
    pub(super) fn last(&self) -> Option<&str> {
        self.pending.back().map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> ConsoleLine {
        ConsoleLine { level: "log".into(), text: text.into(), at_ms: 0.0, late: false, eval_id: None }
    }

    fn take(buffer: &mut ConsoleBuffer, eval: u64) -> String {
        buffer.take(eval, |_| false, 1000).text
    }

    #[test]
    fn every_line_is_returned_once_in_either_order() {
        let mut buffer = ConsoleBuffer::default();
        buffer.on_line(1, &line("a"));
        assert_eq!(take(&mut buffer, 1), "a");
        buffer.on_answer(1, &[line("a"), line("b")], 0);
        assert_eq!(take(&mut buffer, 1), "b");
        buffer.on_line(1, &line("b"));
        buffer.on_line(2, &line("c"));
        assert_eq!(take(&mut buffer, 2), "c");
        buffer.on_answer(2, &[line("c")], 3);
        assert_eq!(buffer.take(2, |_| false, 1000), NewOutput { text: String::new(), dropped: 3 });
    }

    #[test]
    fn lines_of_another_running_eval_stay() {
        let mut buffer = ConsoleBuffer::default();
        buffer.on_line(1, &line("one"));
        buffer.on_line(2, &line("two"));
        assert_eq!(buffer.take(2, |eval| eval == 1, 1000).text, "two");
        assert_eq!(take(&mut buffer, 2), "one");
    }

    #[test]
    fn only_the_latest_lines_are_kept_and_shown() {
        let mut buffer = ConsoleBuffer::default();
        let long = "x".repeat(PENDING_BYTES_MAX / 4);
        (0..5).for_each(|_| buffer.on_line(1, &line(&long)));
        assert!(buffer.bytes <= PENDING_BYTES_MAX && buffer.dropped == 2);
        assert_eq!(buffer.take(1, |_| false, 10), NewOutput { text: String::new(), dropped: 5 });
        for text in ["first", "second", "third"] {
            buffer.on_line(1, &line(text));
        }
        let shown = buffer.take(1, |_| false, 14);
        assert_eq!((shown.text.as_str(), shown.dropped), ("second\nthird", 1));
    }
}

//! The console lines of the running eval, bounded in bytes.

use serde::{Deserialize, Serialize};

/// What a line costs beside its text, so that empty lines are bounded too.
const LINE_OVERHEAD_BYTES: usize = 64;

/// One line that a script printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsoleLine {
    /// `log`, `info`, `warn`, `error` or `debug`.
    pub level: String,
    /// The line itself.
    pub text: String,
    /// Milliseconds after the start of the eval.
    pub at_ms: u64,
    /// Whether it comes from an eval that was over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// What was printed since the last eval ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Console {
    lines: Vec<ConsoleLine>,
    bytes: usize,
    dropped: u64,
    bytes_max: usize,
    /// Lines that a client with `console.write` has not been sent yet.
    unsent: Vec<ConsoleLine>,
    streams: bool,
}

impl Console {
    /// Keeps up to `bytes_max`.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { lines: Vec::new(), bytes: 0, dropped: 0, bytes_max, unsent: Vec::new(), streams: false }
    }

    /// Whether lines are to be sent as they come.
    pub(crate) fn set_streaming(&mut self, streams: bool) {
        self.streams = streams;
        self.unsent.clear();
    }

    /// Keeps a line, or counts it.
    pub(crate) fn push(&mut self, line: ConsoleLine) {
        let cost = line.text.len() + LINE_OVERHEAD_BYTES;
        if self.bytes + cost > self.bytes_max {
            self.dropped += 1;
            return;
        }
        self.bytes += cost;
        if self.streams {
            self.unsent.push(line.clone());
        }
        self.lines.push(line);
    }

    /// The lines and how many were dropped; the next eval starts anew.
    pub(crate) fn take(&mut self) -> (Vec<ConsoleLine>, u64) {
        self.bytes = 0;
        (std::mem::take(&mut self.lines), std::mem::take(&mut self.dropped))
    }

    /// The lines to be sent now.
    pub(crate) fn take_unsent(&mut self) -> Vec<ConsoleLine> {
        std::mem::take(&mut self.unsent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> ConsoleLine {
        ConsoleLine { level: "log".into(), text: text.into(), at_ms: 0, late: false }
    }

    #[test]
    fn console_past_its_limit_counts_dropped_lines() {
        let mut console = Console::new(2 * (LINE_OVERHEAD_BYTES + 1));
        for text in ["a", "b", "c"] {
            console.push(line(text));
        }
        let (lines, dropped) = console.take();
        assert_eq!((lines.len(), dropped), (2, 1));
        console.push(line("d"));
        assert_eq!(console.take().0, [line("d")]);
    }
}

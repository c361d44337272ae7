//! What an executable prints to its stderr: logged line by line, and its end kept for the error of a failed start.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

use crate::package::Secrets;

/// Longest line that is logged, so that a flood without line ends costs no memory. Past it: the rest is left out.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Lines that are kept for an error. A stack trace of an interpreter ends with what went wrong.
pub(crate) const LINES_KEPT_MAX: usize = 8;

/// Longest line that is kept.
const KEPT_LINE_BYTES_MAX: usize = 400;

/// The last lines.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<VecDeque<String>>>);

impl StderrTail {
    /// Logs everything until the end.
    pub(crate) async fn read(self, package: String, secrets: Secrets, stderr: impl AsyncRead + Unpin) {
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        // So much more is read that a secret is whole, and found, if any of it would be shown.
        let bytes_read_max = (LINE_BYTES_MAX + secrets.longest_bytes()) as u64;
        while let Ok(1..) = (&mut stderr).take(bytes_read_max).read_until(b'\n', &mut line).await {
            let text = secrets.redact(String::from_utf8_lossy(&line).trim_end());
            let shown = &text[..text.floor_char_boundary(LINE_BYTES_MAX)];
            tracing::info!(%package, "{shown}");
            self.keep(shown[..shown.floor_char_boundary(KEPT_LINE_BYTES_MAX)].to_owned());
            if !line.ends_with(b"\n") {
                skip_line(&mut stderr).await;
            }
            line.clear();
        }
    }

    fn keep(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == LINES_KEPT_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// A message with the last lines behind it, if there are any.
    pub(crate) fn append_to(&self, message: &str) -> String {
        let lines: Vec<String> = self.0.lock().iter().filter(|line| !line.is_empty()).cloned().collect();
        match lines.is_empty() {
            true => message.to_owned(),
            false => format!("{message}; it printed: {}", lines.join(" | ")),
        }
    }
}

/// Reads to the end of a line whose beginning was enough.
async fn skip_line(stderr: &mut (impl AsyncBufRead + Unpin)) {
    while let Ok(bytes @ [_, ..]) = stderr.fill_buf().await {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let skipped = end.map_or(bytes.len(), |end| end + 1);
        stderr.consume(skipped);
        if end.is_some() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn last_lines_are_kept_without_secrets() {
        let tail = StderrTail::default();
        let mut secrets = Secrets::default();
        secrets.add("TOKEN", "s3cret-token");
        let printed: String = (0..20).map(|at| format!("line {at} s3cret-token\n")).collect();
        tail.clone().read("p".to_owned(), secrets, printed.as_bytes()).await;
        let message = tail.append_to("failed");
        assert!(message.starts_with("failed; it printed: line 12 ${TOKEN} | line 13"), "{message}");
        assert_eq!(message.matches("${TOKEN}").count(), LINES_KEPT_MAX);
        assert_eq!(StderrTail::default().append_to("failed"), "failed");
    }

    #[tokio::test]
    async fn secret_at_the_end_of_a_long_line_is_not_cut_in_two() {
        let mut secrets = Secrets::default();
        secrets.add("TOKEN", "s3cret-token");
        for before in [LINE_BYTES_MAX - 4, LINE_BYTES_MAX, LINE_BYTES_MAX + 4] {
            let mut kept = Vec::new();
            let printed = format!("{}s3cret-token{}\nnext\n", "x".repeat(before), "y".repeat(LINE_BYTES_MAX));
            let tail = StderrTail::default();
            tail.clone().read("p".to_owned(), secrets.clone(), printed.as_bytes()).await;
            kept.extend(tail.0.lock().iter().cloned());
            assert_eq!(kept, ["x".repeat(KEPT_LINE_BYTES_MAX), "next".to_owned()]);
        }
    }
}

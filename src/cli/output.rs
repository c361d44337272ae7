//! Writing to stdout without a panic when it is closed.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::Failure;

/// Writes a text and flushes it. A closed pipe, as in `… | head`, is not a failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::Run(format!("cannot write to stdout: {error}"))),
    }
}

/// [`print_line()`], but returns after `wait_max` if the reader stalls; the line is written when it reads.
pub(super) fn print_line_within(wait_max: Duration, text: String) -> Result<(), Failure> {
    let (done_tx, done_rx) = sync_channel(1);
    std::thread::Builder::new()
        .name("stdout".to_owned())
        .spawn(move || done_tx.send(print_line(&text)))
        .map_err(|error| Failure::Run(format!("cannot write to stdout: {error}")))?;
    match done_rx.recv_timeout(wait_max) {
        Ok(printed) => printed,
        Err(_) => {
            tracing::warn!("stdout is not read");
            Ok(())
        }
    }
}

/// [`print()`] with a line end.
pub(super) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

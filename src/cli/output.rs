//! Writing to stdout without a panic when nobody reads it.

use std::io::{self, ErrorKind, Write};

use super::Failure;

/// Writes a text and flushes it. A reader that has gone, as in `… | head`, is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::Run(format!("cannot write to stdout: {error}"))),
    }
}

/// [`print()`] with a line end.
pub(super) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

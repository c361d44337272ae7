//! A queue of log lines for a reader that may stall.
//!
//! A thread of its own writes; everything else leaves its lines in a bounded buffer and goes on. When the buffer is full
//! a line is dropped and counted, and when the reader goes on, a line of its own says how many are missing.
//!
//! Crates for this count their bound in lines, whose length a script decides, and print a message of their own when a
//! stalled reader holds up the end of the program, which then never comes, or lands in the protocol on stdout.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::record_dropped_log_lines;

/// Bytes of log lines that wait for the reader; as many again may be on their way to it.
/// Some thousand lines: a burst of refused connections fits, and a reader that never reads costs no more than this.
pub const LOG_QUEUED_BYTES_MAX: usize = 1 << 20;

/// How long to wait before writing again to a descriptor that another process made non-blocking.
const WRITE_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The queue of a log. Cheap to clone; a write never waits.
#[derive(Clone)]
pub struct LogQueue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something waits to be written.
    arrived: Condvar,
    /// Everything is written.
    drained: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<u8>,
    /// Lines dropped since the last announcement.
    dropped: u64,
    is_writing: bool,
}

impl State {
    fn is_drained(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.is_writing
    }
}

impl LogQueue {
    /// Starts the thread that writes to `sink`. `announce` makes the line that says how many lines were dropped.
    pub fn start(
        sink: impl Write + Send + 'static,
        announce: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || of_thread.write_lines(sink, &announce))?;
        Ok(Self { shared })
    }

    /// Adds a line, with its line end, or drops it when too much waits.
    pub fn push(&self, line: &[u8]) {
        let mut state = self.shared.state.lock();
        if state.lines.len() + line.len() > LOG_QUEUED_BYTES_MAX {
            state.dropped += 1;
            drop(state);
            return record_dropped_log_lines(1);
        }
        state.lines.extend_from_slice(line);
        drop(state);
        self.shared.arrived.notify_one();
    }

    /// Waits until every line is written, at most for `wait_max`. Returns whether it is.
    pub fn flush(&self, wait_max: Duration) -> bool {
        let deadline = Instant::now() + wait_max;
        let mut state = self.shared.state.lock();
        while !state.is_drained() {
            if self.shared.drained.wait_until(&mut state, deadline).timed_out() {
                return state.is_drained();
            }
        }
        true
    }
}

impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    /// Does nothing: the thread flushes what it writes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn write_lines(&self, mut sink: impl Write, announce: &dyn Fn(u64) -> String) {
        let mut batch = Vec::new();
        loop {
            let dropped = {
                let mut state = self.state.lock();
                state.is_writing = false;
                while state.is_drained() {
                    self.drained.notify_all();
                    self.arrived.wait(&mut state);
                }
                std::mem::swap(&mut batch, &mut state.lines);
                state.is_writing = true;
                std::mem::take(&mut state.dropped)
            };
            // They were dropped because those of the batch were in the way, so they come after it.
            if dropped > 0 {
                batch.extend_from_slice(announce(dropped).as_bytes());
            }
            if write_all(&mut sink, &batch).is_err() {
                // The reader has closed the pipe, or the disk behind it is full.
                let lines = batch.iter().filter(|byte| **byte == b'\n').count();
                record_dropped_log_lines(u64::try_from(lines).unwrap_or(u64::MAX));
            }
            batch.clear();
        }
    }
}

fn write_all(sink: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match sink.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(WRITE_AGAIN_AFTER),
            Err(error) => return Err(error),
        }
    }
    sink.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

    use super::*;

    /// Passes on what is written; each write begins only when it is let through.
    struct GatedSink {
        begun_tx: SyncSender<()>,
        let_rx: Receiver<()>,
        bytes_tx: Sender<Vec<u8>>,
    }

    impl Write for GatedSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.begun_tx.send(()).map_err(io::Error::other)?;
            self.let_rx.recv().map_err(io::Error::other)?;
            self.bytes_tx.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn full_queue_drops_lines_and_announces_them() {
        let ((begun_tx, begun_rx), (let_tx, let_rx), (bytes_tx, bytes_rx)) =
            (sync_channel(8), channel(), channel());
        let announce = |dropped| format!("{dropped} dropped\n");
        let queue = LogQueue::start(GatedSink { begun_tx, let_rx, bytes_tx }, announce).unwrap();
        queue.push(b"first\n");
        begun_rx.recv().unwrap();
        // The thread is inside its write: from here on everything waits.
        let line = [vec![b'x'; (LOG_QUEUED_BYTES_MAX / 4) - 1], vec![b'\n']].concat();
        for _ in 0..4 {
            queue.push(&line);
        }
        for _ in 0..3 {
            queue.push(b"one too many\n");
        }
        assert!(!queue.flush(Duration::ZERO));
        let_tx.send(()).unwrap();
        let_tx.send(()).unwrap();
        assert_eq!(bytes_rx.recv().unwrap(), b"first\n");
        let second = bytes_rx.recv().unwrap();
        assert_eq!(second.len(), LOG_QUEUED_BYTES_MAX + "3 dropped\n".len());
        assert!(second.ends_with(b"\n3 dropped\n"));
        assert!(queue.flush(Duration::from_secs(20)));
    }

    #[test]
    fn flush_of_an_empty_queue_returns() {
        let queue = LogQueue::start(io::sink(), |_| String::new()).unwrap();
        queue.push(b"a line\n");
        assert!(queue.flush(Duration::from_secs(20)));
        assert!(queue.flush(Duration::ZERO));
    }
}

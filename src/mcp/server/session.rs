//! A session of the gateway: a client of this very server, over an in-process connection.
//!
//! So policy, quotas, limits and audit hold for it as for every other client, and it lives on when the MCP client that
//! opened it loses its connection.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::approvals::Approvals;
use super::console::{ConsoleBuffer, NewOutput};
use super::gateway::new_handle;
use super::tables::SessionState;
use crate::client::{Client, ClientError, ConsoleLine};
use crate::transport::PairEnd;

/// A session that MCP clients use by its handle.
pub(super) struct Session {
    pub(super) handle: String,
    pub(super) client: Client,
    console: Arc<Mutex<ConsoleBuffer>>,
    /// How many lines were printed.
    printed_rx: watch::Receiver<u64>,
    /// Its calls that wait for a person.
    pub(super) approvals: Arc<Approvals>,
}

impl SessionState for Session {
    fn is_open(&self) -> bool {
        !self.client.is_closed()
    }
}

impl Session {
    /// Opens a session over a connection to the server.
    pub(super) async fn open(
        handle: String,
        connection: PairEnd,
        message_bytes_max: usize,
    ) -> Result<Self, ClientError> {
        let console = Arc::new(Mutex::new(ConsoleBuffer::default()));
        let (printed_tx, printed_rx) = watch::channel(0);
        let buffer = Arc::clone(&console);
        let on_line = move |line: ConsoleLine| {
            let eval = line.eval_id.as_ref().and_then(serde_json::Value::as_u64).unwrap_or_default();
            buffer.lock().on_line(eval, &line);
            printed_tx.send_modify(|count| *count += 1);
        };
        let approvals = Arc::new(Approvals::default());
        let asked = Arc::clone(&approvals);
        let client = Client::builder()
            .metadata(json!({"client": {"name": "scomp-mcp", "version": env!("CARGO_PKG_VERSION")}}))
            .message_bytes_max(message_bytes_max)
            .on_console(on_line)
            .on_approve(move |request, _context| Arc::clone(&asked).ask(new_handle("p"), request))
            .connect_transport(connection)
            .await?;
        Ok(Self { handle, client, console, printed_rx, approvals })
    }

    /// An eval was answered with these lines.
    pub(super) fn on_answer(&self, eval: u64, lines: &[ConsoleLine], dropped: u64) {
        self.console.lock().on_answer(eval, lines, dropped);
    }

    /// What is new on the console for an eval; `runs` says which others run.
    pub(super) fn take_output(&self, eval: u64, runs: impl Fn(u64) -> bool, bytes_max: usize) -> NewOutput {
        self.console.lock().take(eval, runs, bytes_max)
    }

    /// The line that was printed last.
    pub(super) fn last_line(&self) -> Option<String> {
        self.console.lock().last().map(str::to_owned)
    }

    /// Changes with every line.
    pub(super) fn printed(&self) -> watch::Receiver<u64> {
        self.printed_rx.clone()
    }
}

//! How `eval` and `repl` reach a server: by its URL, or by starting one inside this program.

use std::sync::Arc;

use parking_lot::Mutex;
use scomp::client::{Builder, Client, ClientError, ConsoleLine};
use scomp::config::Settings;
use scomp::package::loader::Loaded;
use scomp::server::settings::IsolationSettings;
use scomp::server::{Gate, Server, StartError, Tls};
use scomp::transport::TransportError;
use serde_json::json;

use super::args::RemoteArgs;
use super::{Failure, bindings};

/// Builds a server from its settings.
pub(super) fn build_server(settings: &Settings, loaded: Loaded) -> Result<Server, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let gate = Gate::new(&settings.auth, settings.origins.clone(), &settings.quotas)
        .map_err(|error| wrong(&error))?;
    let audit = settings.audit.open().map_err(|error| Failure::Usage(format!("audit.path: {error}")))?;
    let mut builder = Server::builder()
        .gate(gate)
        .audit(audit)
        .settings(settings.server.clone())
        .loaded(loaded)
        .limits(settings.limits.clone())
        .sessions(settings.sessions.clone())
        .state_folder(settings.state.clone())
        .isolation(IsolationSettings {
            isolation: settings.isolation,
            sandbox: settings.sandbox,
            workers: settings.workers.clone(),
            program: None,
        })
        .shards(settings.shards);
    #[cfg(feature = "mcp")]
    {
        builder = builder.mcp(settings.mcp.clone());
    }
    if let Some(tls) = &settings.tls {
        builder = builder.tls(Tls::load(tls).map_err(|error| wrong(&error))?);
    }
    builder.build().map_err(|error| match error {
        StartError::Policies(_) | StartError::Settings(_) | StartError::Oauth(_) => wrong(&error),
        StartError::Bindings(_) | StartError::State(_) | StartError::Isolation(_) | StartError::Io(_) => {
            Failure::Run(error.to_string())
        }
    })
}

/// A connected client that prints the console of scripts as it comes.
pub(super) struct ConsoleClient {
    pub(super) client: Client,
    pub(super) console: Console,
    /// The server inside this program, if there is one; it ends with the client.
    _server: Option<Server>,
}

impl ConsoleClient {
    /// Connects to a server by its URL.
    pub(super) async fn remote(
        url: &str,
        remote: &RemoteArgs,
        print: PrintLine,
    ) -> Result<Self, ClientError> {
        let console = Console::new(print);
        let mut builder = client_builder(&console);
        if let Some(token) = &remote.token {
            builder = builder.token(token.clone());
        }
        Ok(Self { client: builder.connect(url).await?, console, _server: None })
    }

    /// Starts a server inside this program; it takes one session, so it has one thread.
    pub(super) async fn in_process(settings: &Settings, print: PrintLine) -> Result<Self, Failure> {
        let loaded = bindings::load(settings)
            .await
            .map_err(|problems| Failure::Usage(bindings::join_problems(&problems)))?;
        let settings = Settings { shards: 1, ..settings.clone() };
        let server = build_server(&settings, loaded)?;
        server.start(Vec::new());
        let console = Console::new(print);
        let connected = client_builder(&console).connect_transport(server.connect()).await;
        Ok(Self { client: connected.map_err(|error| to_failure(&error))?, console, _server: Some(server) })
    }
}

/// Converts a failure to connect.
pub(super) fn to_failure(error: &ClientError) -> Failure {
    Failure::Run(error.to_string())
}

/// Whether no server listens there, as opposed to one that refuses the connection.
pub(super) fn is_absent(error: &ClientError) -> bool {
    matches!(error, ClientError::Transport(TransportError::Unreachable { .. } | TransportError::Io(_)))
}

fn client_builder(console: &Console) -> Builder {
    let console = console.clone();
    Client::builder()
        .metadata(json!({"client": {"name": "scomp-serve", "version": env!("CARGO_PKG_VERSION")}}))
        .on_console(move |line| console.streamed(&line))
}

/// Prints one line of a script's console.
pub(super) type PrintLine = fn(&ConsoleLine);

/// Prints each line of the console once, although it comes twice: as it is printed, and with the eval's answer.
///
/// The two may arrive in either order, so it counts: lines that the answer brought first are skipped when they come.
#[derive(Clone)]
pub(super) struct Console {
    counts: Arc<Mutex<Counts>>,
    print: PrintLine,
}

#[derive(Default)]
struct Counts {
    /// Lines that came as they were printed since the last answer.
    streamed: usize,
    /// Lines that an answer brought before they came by themselves.
    overtaken: usize,
}

impl Console {
    fn new(print: PrintLine) -> Self {
        Self { counts: Arc::default(), print }
    }

    fn streamed(&self, line: &ConsoleLine) {
        let mut counts = self.counts.lock();
        if counts.overtaken > 0 {
            counts.overtaken -= 1;
            return;
        }
        counts.streamed += 1;
        (self.print)(line);
    }

    /// An eval is over: what its answer has beyond the lines that came is printed now.
    pub(super) fn finish(&self, lines: &[ConsoleLine], dropped: u64) {
        let mut counts = self.counts.lock();
        let rest = lines.get(counts.streamed..).unwrap_or_default();
        rest.iter().for_each(self.print);
        counts.overtaken += rest.len();
        counts.streamed = counts.streamed.saturating_sub(lines.len());
        if dropped > 0 {
            eprintln!("({dropped} more lines of the console were dropped)");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static PRINTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn note(line: &ConsoleLine) {
        PRINTED.with_borrow_mut(|printed| printed.push(line.text.clone()));
    }

    fn line(text: &str) -> ConsoleLine {
        serde_json::from_value(json!({"level": "log", "text": text})).unwrap()
    }

    #[test]
    fn every_console_line_is_printed_once() {
        let console = Console::new(note);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(line);
        console.streamed(&a);
        console.finish(&[a, b.clone()], 0);
        console.streamed(&b);
        console.streamed(&c);
        console.finish(&[c, d.clone()], 0);
        console.streamed(&d);
        assert_eq!(PRINTED.take(), ["a", "b", "c", "d"]);
    }
}

//! How a client is set up: its token, its bindings, and where it connects.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::process::Command;

use super::eval::ConsoleLines;
use super::handler::{self, CallContext, Handler, Outcome};
use super::handshake::Introduction;
use super::machine::Bindings;
use super::{CallError, Client, ClientError, ConsoleLine, Reconnect, Resumed, task};
use crate::protocol::methods::ResumeParams;
use crate::transport::{self, BoxTransport, Transport, TransportError};

/// Longest message, both ways, unless the builder sets another: the server's own default.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

type DialFuture = Pin<Box<dyn Future<Output = Result<BoxTransport, TransportError>> + Send>>;
type Dial = Arc<dyn Fn() -> DialFuture + Send + Sync>;

/// What stays the same over all connections of a client.
pub(super) struct Settings {
    pub(super) handlers: Arc<Bindings>,
    declarations: Vec<Value>,
    metadata: Value,
    pub(super) message_bytes_max: usize,
    pub(super) dial: Option<Dial>,
    pub(super) reconnect: Option<Reconnect>,
    pub(super) on_reconnect: Option<Box<dyn Fn(Resumed) + Send + Sync>>,
}

impl Settings {
    pub(super) fn introduction(&self) -> Introduction<'_> {
        Introduction { bindings: &self.declarations, metadata: &self.metadata }
    }
}

/// Sets up a [`Client`].
pub struct Builder {
    token: Option<String>,
    resume: Option<ResumeParams>,
    handlers: HashMap<String, Handler>,
    settings: Settings,
}

impl Default for Builder {
    fn default() -> Self {
        let metadata = json!({"client": {"name": "scomp-client", "version": env!("CARGO_PKG_VERSION")}});
        Self {
            token: None,
            resume: None,
            handlers: HashMap::new(),
            settings: Settings {
                handlers: Arc::default(),
                declarations: Vec::new(),
                metadata,
                message_bytes_max: MESSAGE_BYTES_MAX,
                dial: None,
                reconnect: None,
                on_reconnect: None,
            },
        }
    }
}

impl Builder {
    /// The bearer token of the upgrade.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Describes the client in the handshake.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.settings.metadata = metadata;
        self
    }

    /// The session to resume, from [`super::Session::resume`].
    #[must_use]
    pub fn session(mut self, resume: ResumeParams) -> Self {
        self.resume = Some(resume);
        self
    }

    /// Longest message, both ways.
    #[must_use]
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.message_bytes_max = bytes;
        self
    }

    /// Declares a binding that scripts may call, with its schemas (Draft 2020-12; none means anything).
    #[must_use]
    pub fn binding<F, R>(
        self,
        name: &str,
        description: &str,
        input_schema: Option<Value>,
        output_schema: Option<Value>,
        handle: F,
    ) -> Self
    where
        F: Fn(Value, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        self.declare(name, description, input_schema, output_schema, handler::of_binding(handle))
    }

    /// Declares a binding with types of its own; input that does not fit them is refused.
    #[must_use]
    pub fn bind<F, T, U, R>(self, name: &str, description: &str, handle: F) -> Self
    where
        F: Fn(T) -> R + Send + Sync + 'static,
        T: DeserializeOwned,
        U: Serialize,
        R: Future<Output = Result<U, CallError>> + Send + 'static,
    {
        self.declare(name, description, None, None, handler::of_typed(handle))
    }

    /// Receives the lines of the script's console as they are printed.
    #[must_use]
    pub fn on_console(self, print: impl Fn(ConsoleLine) + Send + Sync + 'static) -> Self {
        let handler = handler::of_typed(move |lines: ConsoleLines| {
            match lines {
                ConsoleLines::Batch { entries } => entries.into_iter().for_each(&print),
                ConsoleLines::One(line) => print(line),
            }
            std::future::ready(Ok(()))
        });
        // `entries` asks for batches; a server that does not know of them sends one line at a time.
        let input = json!({"type": "object", "properties": {"entries": {"type": "array"}}});
        self.declare("console.write", "Prints lines of the script's console.", Some(input), None, handler)
    }

    /// Decides on calls that need approval.
    #[must_use]
    pub fn on_approve<F, R>(self, decide: F) -> Self
    where
        F: Fn(Value, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        let description = "Decides whether a call may be made.";
        self.declare("approve", description, None, None, handler::of_binding(decide))
    }

    /// Limits how long a call of a binding that is declared already may take; the server has a limit for it too. Without it
    /// a call may take as long as its eval's `timeout_ms`, or the server's default.
    #[must_use]
    pub fn call_timeout(mut self, binding: &str, timeout: Duration) -> Self {
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        for declaration in &mut self.settings.declarations {
            if declaration["name"] == binding {
                declaration["limits"] = json!({"timeoutMs": milliseconds});
            }
        }
        self
    }

    fn declare(
        mut self,
        name: &str,
        description: &str,
        input: Option<Value>,
        output: Option<Value>,
        handler: Handler,
    ) -> Self {
        let mut declaration = Map::new();
        declaration.insert("name".to_owned(), name.into());
        declaration.insert("description".to_owned(), description.into());
        for (key, schema) in [("input", input), ("output", output)] {
            if let Some(schema) = schema {
                declaration.insert(key.to_owned(), schema);
            }
        }
        self.settings.declarations.push(Value::Object(declaration));
        self.handlers.insert(name.to_owned(), handler);
        self
    }

    /// Reconnects after an unexpected end of the connection. Evals with a key are sent again, other requests fail.
    #[must_use]
    pub fn reconnect(mut self, policy: Reconnect) -> Self {
        self.settings.reconnect = Some(policy);
        self
    }

    /// Called after each reconnect, with whether the session is still the same. It must not block.
    #[must_use]
    pub fn on_reconnect(mut self, hook: impl Fn(Resumed) + Send + Sync + 'static) -> Self {
        self.settings.on_reconnect = Some(Box::new(hook));
        self
    }

    /// Connects to `ws://…` or `wss://…`.
    pub async fn connect(self, url: impl Into<String>) -> Result<Client, ClientError> {
        let to = Arc::new(transport::Dial {
            url: url.into(),
            subprotocol: Some(transport::SUBPROTOCOL.to_owned()),
            token: self.token.clone(),
            message_bytes_max: self.settings.message_bytes_max,
        });
        self.connect_with(move || {
            let to = Arc::clone(&to);
            async move { Ok(Box::new(transport::dial(&to).await?) as BoxTransport) }
        })
        .await
    }

    /// Connects over the transport that `dial` opens; it is called again for each reconnect.
    pub async fn connect_with<F, R>(mut self, dial: F) -> Result<Client, ClientError>
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<BoxTransport, TransportError>> + Send + 'static,
    {
        let dial: Dial = Arc::new(move || Box::pin(dial()));
        self.settings.dial = Some(Arc::clone(&dial));
        self.open(dial().await?).await
    }

    /// Starts a program that serves scomp over its stdin and stdout. It ends with the client; there is no reconnect.
    pub async fn connect_command(self, command: Command) -> Result<Client, ClientError> {
        let lines =
            transport::spawn(command, self.settings.message_bytes_max).map_err(TransportError::from)?;
        self.connect_transport(lines).await
    }

    /// Connects over an open transport, such as one end of a pair. There is no reconnect.
    pub async fn connect_transport(self, transport: impl Transport) -> Result<Client, ClientError> {
        self.open(Box::new(transport)).await
    }

    async fn open(mut self, transport: BoxTransport) -> Result<Client, ClientError> {
        self.settings.handlers = Arc::new(self.handlers);
        let settings = Arc::new(self.settings);
        let (live, connected) = task::open(&settings, transport, self.resume.as_ref(), false, 1).await?;
        Ok(Client::start(settings, live, connected))
    }
}

//! A package that an MCP server serves: its handle, and the bindings of what the server offers.
//!
//! Handlers go through the connection of the moment, so they outlive restarts of the server. Without a connection, calls
//! fail immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rmcp::service::ServiceError;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::call;
use super::config::ToolRules;
use super::connection::Connection;
use super::content::shortened;
use super::extras;
use super::list::ToolList;
use super::tools::{self, MappedTool, MappedTools};
use crate::binding::{Binding, BindingError, BindingLimits, Call, Handler, handler};
use crate::package::{Secrets, UnmappedItem};
use crate::rpc::Kind;

/// Calls that one server works on at a time, over all sessions. Past it: calls fail with `Busy`.
pub(super) const CALLS_IN_FLIGHT_MAX: usize = 256;

/// Calls that may end without an answer, one after the other, before the server is taken for hung and started again.
const CALLS_UNANSWERED_MAX: usize = 512;

/// The handle of a package. The server ends when the last one is gone.
pub(super) struct McpPackage {
    pub(super) name: String,
    pub(super) rules: ToolRules,
    pub(super) secrets: Secrets,
    pub(super) current_rx: watch::Receiver<Option<Arc<Connection>>>,
    calls: AtomicUsize,
    pub(super) end: CancellationToken,
    pub(super) ended: CancellationToken,
    _ends_when_dropped: DropGuard,
}

impl McpPackage {
    pub(super) fn new(
        name: String,
        rules: ToolRules,
        secrets: Secrets,
        current_rx: watch::Receiver<Option<Arc<Connection>>>,
    ) -> Arc<Self> {
        let end = CancellationToken::new();
        Arc::new(Self {
            name,
            rules,
            secrets,
            current_rx,
            calls: AtomicUsize::new(0),
            _ends_when_dropped: end.clone().drop_guard(),
            end,
            ended: CancellationToken::new(),
        })
    }

    /// Ends the server for good; returns when its process is gone.
    pub(super) async fn stop(&self) {
        self.end.cancel();
        self.ended.cancelled().await;
    }

    /// Asks a server what it offers, and makes bindings of it.
    pub(super) async fn offered(
        self: &Arc<Self>,
        connection: &Connection,
    ) -> Result<(Vec<Binding>, Vec<UnmappedItem>), String> {
        let info = connection.info();
        let capabilities = info.as_ref().map(|info| &info.capabilities);
        let has_tools = capabilities.is_none_or(|capabilities| capabilities.tools.is_some());
        let listed = if has_tools { self.list_tools(connection).await? } else { ToolList::default() };
        let MappedTools { tools, mut unmapped } =
            tools::map(&self.name, &listed.tools, &self.rules, &self.secrets);
        let cut = listed.cut.map(|reason| UnmappedItem { name: "tools/list".to_owned(), reason });
        unmapped.extend(cut);
        let mut bindings: Vec<Binding> = tools.into_iter().map(|tool| self.bind_tool(tool)).collect();
        if capabilities.is_some_and(|capabilities| capabilities.resources.is_some()) {
            bindings.extend(extras::resources(self));
        }
        if capabilities.is_some_and(|capabilities| capabilities.prompts.is_some()) {
            bindings.extend(extras::prompts(self));
        }
        Ok((bindings, unmapped))
    }

    /// All pages of `tools/list`, up to the limits.
    async fn list_tools(&self, connection: &Connection) -> Result<ToolList, String> {
        let mut list = ToolList::default();
        let mut params = serde_json::json!({});
        loop {
            let page = connection.request("tools/list", params, None).await;
            let page = page.map_err(|error| {
                let reason = connection.routes.failure().unwrap_or_else(|| error.to_string());
                self.secrets.redact(&format!("tools/list failed: {}", shortened(&reason)))
            })?;
            match list.add(page)? {
                Some(next) => params = next,
                None => return Ok(list),
            }
        }
    }

    fn bind_tool(self: &Arc<Self>, tool: MappedTool) -> Binding {
        let (package, declaration) = (Arc::clone(self), tool.declaration.clone());
        let tool = Arc::new(tool);
        let handler = handler(move |input, call| {
            let (package, tool) = (Arc::clone(&package), Arc::clone(&tool));
            async move { call::call_tool(&package, &tool, input, call).await }
        });
        self.bind(declaration, handler)
    }

    /// A binding with the package's limits.
    pub(super) fn bind(
        &self,
        declaration: crate::protocol::declaration::Declaration,
        handler: Arc<dyn Handler>,
    ) -> Binding {
        let limits = BindingLimits { timeout_ms: self.rules.timeout_ms, ..BindingLimits::default() };
        Binding { declaration, limits, handler }
    }

    /// Begins a call: the connection of the moment and a free place.
    pub(super) fn begin(self: &Arc<Self>) -> Result<CallInFlight, BindingError> {
        let Some(connection) = self.current_rx.borrow().clone() else {
            let message = format!("the MCP server of `{}` ended and is being restarted", self.name);
            return Err(BindingError::of_kind(Kind::PeerGone, message));
        };
        if self.calls.fetch_add(1, Relaxed) >= CALLS_IN_FLIGHT_MAX {
            self.calls.fetch_sub(1, Relaxed);
            let message =
                format!("the MCP server of `{}` has {CALLS_IN_FLIGHT_MAX} calls in flight", self.name);
            return Err(BindingError::of_kind(Kind::Busy, message));
        }
        Ok(CallInFlight { package: Arc::clone(self), connection, is_answered: false })
    }

    /// What a failed request is to the caller.
    pub(super) fn error(&self, error: &ServiceError, connection: &Connection) -> BindingError {
        let text = |text: &str| self.secrets.redact(&shortened(text));
        match error {
            ServiceError::McpError(error) => BindingError::new(text(&error.message)),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                let reason = connection.routes.failure().unwrap_or_else(|| error.to_string());
                let message = format!("the MCP server of `{}` did not answer: {}", self.name, text(&reason));
                BindingError::of_kind(Kind::PeerGone, message)
            }
            ServiceError::Cancelled { .. } => {
                BindingError::of_kind(Kind::Cancelled, "the call was cancelled")
            }
            ServiceError::Timeout { .. } => BindingError::of_kind(Kind::Timeout, text(&error.to_string())),
            other => BindingError::of_kind(Kind::InvalidOutput, text(&other.to_string())),
        }
    }
}

/// A call that has a place.
pub(super) struct CallInFlight {
    pub(super) package: Arc<McpPackage>,
    pub(super) connection: Arc<Connection>,
    /// Whether its answer came.
    pub(super) is_answered: bool,
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.package.calls.fetch_sub(1, Relaxed);
        let connection = &self.connection;
        if self.is_answered {
            connection.unanswered.store(0, Relaxed);
        } else if connection.unanswered.fetch_add(1, Relaxed) + 1 == CALLS_UNANSWERED_MAX {
            connection.hung.cancel();
        }
    }
}

/// The session of a call, as routes name it.
pub(super) fn session_of(call: &Call) -> Arc<str> {
    call.session.id.as_str().into()
}

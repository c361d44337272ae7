//! Our side of a connection, as the protocol library calls it: who we are, and what a server may ask of us.
//!
//! A question for a person goes to the call that it belongs to. Everything else is refused: a server gets no model to
//! talk to, and no files.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ProtocolVersion,
    UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, RequestContext, RoleClient};
use serde_json::Value;
use tokio::sync::oneshot;

use super::routes::{CallEvent, Routes};

/// Answers a server.
pub(super) struct ServerRequests {
    pub(super) routes: Arc<Routes>,
}

impl ServerRequests {
    async fn ask(
        &self,
        request: &ElicitRequestParams,
        context: &RequestContext<RoleClient>,
    ) -> Option<Value> {
        let origin = context.extensions.get::<InboundStreamOrigin>();
        let events_tx = self.routes.call_of(origin)?;
        let (reply_tx, reply_rx) = oneshot::channel();
        let params = serde_json::to_value(request).ok()?;
        events_tx.try_send(CallEvent::Elicit { params, reply_tx }).ok()?;
        tokio::select! {
            reply = reply_rx => reply.ok(),
            () = context.ct.cancelled() => None,
        }
    }
}

impl ClientHandler for ServerRequests {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let reply = self.ask(&request, &context).await;
        let read = reply.and_then(|reply| serde_json::from_value(reply).ok());
        Ok(read.unwrap_or_else(|| ElicitResult::new(ElicitationAction::Decline)))
    }

    fn get_info(&self) -> ClientConfig {
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        let mut info =
            ClientConfig::new(capabilities, Implementation::new("scomp-serve", env!("CARGO_PKG_VERSION")));
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info
    }
}

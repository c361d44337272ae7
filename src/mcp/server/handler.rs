//! The MCP server: which request does what.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceContents, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::arguments::{self, DescribeInput, ExecuteInput};
use super::caller::Caller;
use super::error::ToolError;
use super::gateway::Gateway;
use super::output::{self, ARTIFACT_TYPE, ARTIFACT_URI};
use super::{bindings, tools};
use crate::binding::Principal;
use crate::peering::Requester;

/// How long a client may keep the list of tools, in milliseconds: it changes with the program only.
const TOOLS_TTL_MS: u64 = 3_600_000;

/// Serves the requests of MCP clients.
#[derive(Clone)]
pub(crate) struct Handler {
    gateway: Arc<Gateway>,
    /// The principal of a connection without HTTP requests.
    local: Option<Arc<Principal>>,
}

impl Handler {
    /// Serves requests over HTTP, each as the principal of its token.
    pub(super) fn over_http(gateway: Arc<Gateway>) -> Self {
        Self { gateway, local: None }
    }

    /// Serves the requests of one principal.
    pub(super) fn for_principal(gateway: Arc<Gateway>, principal: Arc<Principal>) -> Self {
        Self { gateway, local: Some(principal) }
    }

    fn principal(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Principal>, ErrorData> {
        let requester = || context.extensions.get::<Parts>()?.extensions.get::<Requester>();
        let principal = self.local.clone().or_else(|| Some(Arc::clone(&requester()?.principal)));
        principal.ok_or_else(|| ErrorData::internal_error("the request has no principal", None))
    }

    async fn run_tool(
        &self,
        caller: &Caller,
        call: CallToolRequestParams,
    ) -> Result<CallToolResult, ToolError> {
        let arguments = call.arguments;
        match call.name.as_ref() {
            "execute" => {
                let input = ExecuteInput::read(arguments)?;
                Ok(self.gateway.execute(caller, input).await?.into_result())
            }
            "wait" => Ok(self.gateway.wait(caller, arguments::read(arguments)?).await?.into_result()),
            "search" => {
                let found = bindings::search(&*self.gateway.catalog()?, &arguments::read(arguments)?).await;
                Ok(CallToolResult::structured(found))
            }
            "describe" => {
                let input = DescribeInput::read(arguments)?;
                Ok(CallToolResult::structured(bindings::describe(&*self.gateway.catalog()?, &input)))
            }
            _ => {
                let done = self.gateway.session(caller, arguments::read(arguments)?).await?;
                Ok(CallToolResult::structured(done))
            }
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let implementation = Implementation::new("scomp-serve", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(tools::INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed = ListToolsResult::with_all_items(tools::all().to_vec());
        Ok(listed.with_ttl_ms(TOOLS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.get_tool(&call.name).is_none() {
            return Err(ErrorData::invalid_params(format!("unknown tool {:?}", call.name), None));
        }
        let caller = Caller { principal: self.principal(&context)?, context };
        let result = self.run_tool(&caller, call).await;
        Ok(result.unwrap_or_else(|error| output::refused(&error)).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        // Artifacts are reached by the links in results; a list of them would only repeat these.
        Ok(ListResourcesResult::default())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let principal = self.principal(&context)?;
        let id = request.uri.strip_prefix(ARTIFACT_URI);
        let found = id
            .ok_or_else(|| ToolError::ArtifactNotFound(request.uri.clone()))
            .and_then(|id| self.gateway.artifact(&principal, id));
        let text = found.map_err(|error| {
            ErrorData::resource_not_found(error.to_string(), Some(serde_json::json!({"uri": request.uri})))
        })?;
        let contents = ResourceContents::text(text.to_string(), request.uri).with_mime_type(ARTIFACT_TYPE);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

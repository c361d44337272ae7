//! The MCP server: which request does what.
#![allow(deprecated, reason = "the library deprecates what revision 2026-07-28 does not have")]

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
    GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceContents, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::arguments::{self, DescribeInput, ExecuteInput, WaitInput};
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

    fn caller(&self, context: RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        Ok(Caller { principal: self.principal(&context)?, context })
    }

    async fn run_tool(
        &self,
        caller: &Caller,
        call: CallToolRequestParams,
    ) -> Result<CallToolResponse, ToolError> {
        let arguments = call.arguments;
        let result = match call.name.as_ref() {
            "execute" => {
                let input = ExecuteInput::read(arguments)?;
                if let Some(state) = call.request_state {
                    let wait = self.gateway.wait_time(input.wait_ms);
                    return self.gateway.resume(caller, &state, call.input_responses, wait).await;
                }
                return self.gateway.execute(caller, input).await;
            }
            "wait" => {
                let input: WaitInput = arguments::read(arguments)?;
                if let Some(state) = call.request_state {
                    let wait = self.gateway.wait_time(input.wait_ms);
                    return self.gateway.resume(caller, &state, call.input_responses, wait).await;
                }
                return self.gateway.wait(caller, input).await;
            }
            "search" => bindings::search(&*self.gateway.catalog()?, &arguments::read(arguments)?).await,
            "describe" => bindings::describe(&*self.gateway.catalog()?, &DescribeInput::read(arguments)?),
            _ => self.gateway.session(caller, arguments::read(arguments)?).await?,
        };
        Ok(CallToolResult::structured(result).into())
    }
}

/// A request that names what does not exist.
fn to_protocol_error(error: &ToolError) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_tasks().build();
        let capabilities = self.gateway.extension.capabilities(capabilities);
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
        let tools = tools::all().iter().cloned().chain(self.gateway.extension.tools());
        let listed = ListToolsResult::with_all_items(tools.collect());
        Ok(listed.with_ttl_ms(TOOLS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let own = tools::all().iter().find(|tool| tool.name == name).cloned();
        own.or_else(|| self.gateway.extension.tools().into_iter().find(|tool| tool.name == name))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !tools::all().iter().any(|tool| tool.name == call.name) {
            if self.get_tool(&call.name).is_none() {
                return Err(ErrorData::invalid_params(format!("unknown tool {:?}", call.name), None));
            }
            return self.gateway.extension.call_tool(call, context).await;
        }
        let caller = self.caller(context)?;
        match self.run_tool(&caller, call).await {
            Ok(response) => Ok(response),
            Err(error @ ToolError::RequestState) => Err(to_protocol_error(&error)),
            Err(error) => Ok(output::refused(&error).into()),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        // Artifacts are reached by the links in results; a list of them would only repeat these.
        Ok(ListResourcesResult::with_all_items(self.gateway.extension.resources()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(id) = request.uri.strip_prefix(ARTIFACT_URI) else {
            return self.gateway.extension.read_resource(request, context).await;
        };
        let text = self.gateway.artifact(&*self.principal(&context)?, id).map_err(|error| {
            ErrorData::resource_not_found(error.to_string(), Some(serde_json::json!({"uri": request.uri})))
        })?;
        let contents = ResourceContents::text(text.to_string(), request.uri).with_mime_type(ARTIFACT_TYPE);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.gateway.extension.resource_templates()))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.gateway.task(&self.caller(context)?, &request.task_id);
        task.map(GetTaskResult::new).map_err(|error| to_protocol_error(&error))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(context)?;
        let updated = self.gateway.update_task(&caller, &request.task_id, request.input_responses);
        updated.map_err(|error| to_protocol_error(&error))
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let cancelled = self.gateway.cancel_task(&self.caller(context)?, &request.task_id).await;
        cancelled.map_err(|error| to_protocol_error(&error))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(self.gateway.extension.prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.gateway.extension.get_prompt(request, context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.gateway.extension.complete(request, context).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.gateway.extension.set_level(request).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.gateway.extension.subscribe(request.uri).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.gateway.extension.unsubscribe(request.uri).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.gateway.extension.accept_subscription(requested)
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.gateway.extension.listen(subscription).await
    }
}

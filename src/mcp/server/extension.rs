//! What a program may add to the MCP server of its own: tools, resources, prompts.
#![allow(deprecated, reason = "the library deprecates what revision 2026-07-28 does not have")]

use std::pin::Pin;

use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ResourceTemplate, ServerCapabilities, SetLevelRequestMethod,
    SetLevelRequestParams, SubscribeRequestMethod, SubscriptionFilter, Tool, UnsubscribeRequestMethod,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};

/// The answer to a request.
pub type ExtensionFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ErrorData>> + Send + 'a>>;

fn ready<'a, T: Send + 'a>(answer: Result<T, ErrorData>) -> ExtensionFuture<'a, T> {
    Box::pin(std::future::ready(answer))
}

/// Tools, resources and prompts beside those of code mode, at the same endpoint and behind the same gate.
///
/// All methods have defaults: nothing is added. A tool with the name of one of code mode is never called.
pub trait McpExtension: Send + Sync + 'static {
    /// The capabilities of the server, to which an extension may add.
    fn capabilities(&self, base: ServerCapabilities) -> ServerCapabilities {
        base
    }

    /// The tools, always in the same order.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    /// Calls one of [`Self::tools`].
    fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> ExtensionFuture<'_, CallToolResponse> {
        let _ = (call, context);
        ready(Err(ErrorData::method_not_found::<CallToolRequestMethod>()))
    }

    /// The resources that are listed.
    fn resources(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// The templates of further resources.
    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Reads a resource that does not belong to code mode.
    fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> ExtensionFuture<'_, ReadResourceResponse> {
        let _ = context;
        let data = serde_json::json!({"uri": request.uri});
        ready(Err(ErrorData::resource_not_found(format!("resource {:?} not found", request.uri), Some(data))))
    }

    /// The prompts.
    fn prompts(&self) -> Vec<Prompt> {
        Vec::new()
    }

    /// Fills one of [`Self::prompts`].
    fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> ExtensionFuture<'_, GetPromptResponse> {
        let _ = (request, context);
        ready(Err(ErrorData::method_not_found::<GetPromptRequestMethod>()))
    }

    /// Completes an argument of a prompt or of a resource template.
    fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> ExtensionFuture<'_, CompleteResult> {
        let _ = (request, context);
        ready(Ok(CompleteResult::default()))
    }

    /// Sets the level of log messages that a client of an older revision wants.
    fn set_level(&self, request: SetLevelRequestParams) -> ExtensionFuture<'_, ()> {
        let _ = request;
        ready(Err(ErrorData::method_not_found::<SetLevelRequestMethod>()))
    }

    /// Subscribes a client of an older revision to a resource.
    fn subscribe(&self, uri: String) -> ExtensionFuture<'_, ()> {
        let _ = uri;
        ready(Err(ErrorData::method_not_found::<SubscribeRequestMethod>()))
    }

    /// Ends such a subscription.
    fn unsubscribe(&self, uri: String) -> ExtensionFuture<'_, ()> {
        let _ = uri;
        ready(Err(ErrorData::method_not_found::<UnsubscribeRequestMethod>()))
    }

    /// What of the requested notifications is sent; `None` if there are none at all.
    fn accept_subscription(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let _ = requested;
        None
    }

    /// Sends notifications until the subscription ends.
    fn listen(&self, subscription: SubscriptionContext) -> ExtensionFuture<'_, ()> {
        Box::pin(async move {
            subscription.cancelled().await;
            Ok(())
        })
    }
}

/// Adds nothing.
pub(super) struct NoExtension;

impl McpExtension for NoExtension {}

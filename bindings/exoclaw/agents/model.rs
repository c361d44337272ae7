//! An agent that is a language model. It is called again with the results of its tool calls until
//! it makes no more.

use std::sync::Arc;

use super::{AgentError, AgentRequest};
use crate::bindings::exoclaw::model::call::{self, Endpoint};
use crate::bindings::exoclaw::model::{Message, Piece, Prompt};
use crate::bindings::exoclaw::progress::ProgressSender;
use crate::bindings::exoclaw::store::{Store, UsageRecord};
use crate::bindings::exoclaw::tool_session::ToolSession;
use crate::bindings::exoclaw::tools::Toolbox;
use crate::bindings::exoclaw::wire::{Event, ToolResult, ToolUse, Usage};
use crate::bindings::exoclaw::{now_seconds, route::SessionId};

/// Most model calls for one message. A model that still calls tools after that is in a loop.
pub(crate) const MODEL_CALLS_MAX: usize = 10;

/// A configured agent.
#[derive(Debug)]
pub(crate) struct ModelAgent {
    pub(crate) endpoint: Endpoint,
    pub(crate) model: String,
    pub(crate) tokens_max: u32,
    /// The configured system prompt and the text of the soul file.
    pub(crate) system: Option<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) has_eval: bool,
}

/// What an agent uses to answer one message.
pub(crate) struct ModelResources<'a> {
    pub(crate) http: &'a reqwest::Client,
    pub(crate) store: &'a Store,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) tool_session: ToolSession,
    pub(crate) progress: &'a ProgressSender,
}

/// The output of one model call.
#[derive(Debug, Default)]
struct ModelReply {
    text: String,
    tool_uses: Vec<ToolUse>,
}

impl ModelAgent {
    /// Fails with a text for the client if the agent has no API key.
    pub(crate) fn check_key(&self) -> Result<(), String> {
        if !self.endpoint.key.is_empty() {
            return Ok(());
        }
        let (name, variable) = (self.endpoint.provider.name(), self.endpoint.provider.key_variable());
        Err(format!("provider error: no API key for provider '{name}'. Set {variable} env var."))
    }

    /// Streams the answer to a message, and returns its text.
    pub(crate) async fn answer(
        &self,
        request: &AgentRequest<'_>,
        mut resources: ModelResources<'_>,
    ) -> Result<String, AgentError> {
        let system =
            [self.system.as_deref(), request.facts].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        let mut messages = to_messages(request);
        let mut answer = String::new();
        for _ in 0..MODEL_CALLS_MAX {
            let prompt = Prompt {
                model: &self.model,
                tokens_max: self.tokens_max,
                system: (!system.is_empty()).then_some(system.as_str()),
                messages: &messages,
                tools: &resources.toolbox.tools,
            };
            let reply = self.call(request.session, &prompt, &resources).await?;
            answer.push_str(&reply.text);
            if reply.tool_uses.is_empty() {
                return Ok(answer);
            }
            let results = run_tools(&reply.tool_uses, &mut resources).await?;
            messages.push(Message::Assistant { text: reply.text, tool_uses: reply.tool_uses });
            messages.push(Message::ToolResults(results));
        }
        Err(AgentError::Failed("tool-use loop exceeded max iterations".to_owned()))
    }

    /// Makes one model call, sends its output to the client as it arrives, and records its usage.
    async fn call(
        &self,
        session: &SessionId,
        prompt: &Prompt<'_>,
        resources: &ModelResources<'_>,
    ) -> Result<ModelReply, AgentError> {
        let failed = |error: call::CallError| AgentError::Failed(error.to_string());
        let mut answer = call::call_model(resources.http, &self.endpoint, prompt).await.map_err(failed)?;
        let mut guard = UsageGuard { agent: self, session, store: resources.store, usage: Usage::default() };
        let mut reply = ModelReply::default();
        loop {
            let piece = answer.next().await;
            guard.usage = answer.usage();
            match piece.map_err(failed)? {
                Some(Piece::Text(text)) => {
                    reply.text.push_str(&text);
                    resources.progress.send_event(Event::Text(text)).await?;
                }
                Some(Piece::ToolUse(tool_use)) => {
                    let name = client_name(&resources.toolbox, &tool_use.name);
                    let event = Event::ToolUse(ToolUse { name, ..tool_use.clone() });
                    reply.tool_uses.push(tool_use);
                    resources.progress.send_event(event).await?;
                }
                Some(Piece::End) => {}
                None => break,
            }
        }
        resources.progress.send_event(Event::Usage(guard.usage)).await?;
        Ok(reply)
    }
}

fn to_messages(request: &AgentRequest<'_>) -> Vec<Message> {
    let turns = request.turns.iter().flat_map(|turn| {
        let answer = Message::Assistant { text: turn.assistant.clone(), tool_uses: Vec::new() };
        [Message::User(turn.user.clone()), answer]
    });
    turns.chain([Message::User(request.content.to_owned())]).collect()
}

/// Clients see the name of the binding, not the one changed for the provider.
fn client_name(toolbox: &Toolbox, tool: &str) -> String {
    toolbox.action(tool).map_or(tool, |action| action.name()).to_owned()
}

async fn run_tools(
    tool_uses: &[ToolUse],
    resources: &mut ModelResources<'_>,
) -> Result<Vec<ToolResult>, AgentError> {
    let mut results = Vec::with_capacity(tool_uses.len());
    for tool_use in tool_uses {
        let outcome = match resources.toolbox.action(&tool_use.name) {
            Some(action) => resources.tool_session.run(action, &tool_use.input).await,
            None => Err(format!("unknown tool: {}", tool_use.name)),
        };
        let is_error = outcome.is_err();
        let (Ok(content) | Err(content)) = outcome;
        let result = ToolResult { content, is_error, tool_use_id: tool_use.id.clone() };
        resources.progress.send_event(Event::ToolResult(result.clone())).await?;
        results.push(result);
    }
    Ok(results)
}

/// Records the usage of a model call when it is dropped, also if the client disconnected before the
/// end.
struct UsageGuard<'a> {
    agent: &'a ModelAgent,
    session: &'a SessionId,
    store: &'a Store,
    usage: Usage,
}

impl Drop for UsageGuard<'_> {
    fn drop(&mut self) {
        if self.usage.total() > 0 {
            self.store.record_usage(UsageRecord {
                session: self.session.clone(),
                model: self.agent.model.clone(),
                usage: self.usage,
                seconds: now_seconds(),
            });
        }
    }
}

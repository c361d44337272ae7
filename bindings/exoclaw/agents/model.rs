//! An agent that is a language model: asked, given the results of the tools that it calls, and asked again.

use std::sync::Arc;

use super::{AgentError, Question};
use crate::bindings::exoclaw::model::call::{self, Endpoint};
use crate::bindings::exoclaw::model::{Message, Piece, Prompt};
use crate::bindings::exoclaw::report::Report;
use crate::bindings::exoclaw::store::{Spent, Store};
use crate::bindings::exoclaw::tools::Toolbox;
use crate::bindings::exoclaw::wire::{Event, ToolResult, ToolUse, Usage};
use crate::bindings::exoclaw::workspace::Workspace;
use crate::bindings::exoclaw::{now_seconds, route::SessionId};

/// Calls of the model for one message. A model that still wants tools after so many goes in circles.
pub(crate) const MODEL_CALLS_MAX: usize = 10;

/// An agent as it is configured.
#[derive(Debug)]
pub(crate) struct ModelAgent {
    pub(crate) endpoint: Endpoint,
    pub(crate) model: String,
    pub(crate) tokens_max: u32,
    /// What it is told of itself: the prompt of its configuration and its soul.
    pub(crate) system: Option<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) has_eval: bool,
}

/// What an agent works with while it answers one message.
pub(crate) struct Work<'a> {
    pub(crate) http: &'a reqwest::Client,
    pub(crate) store: &'a Store,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) workspace: Workspace,
    pub(crate) report: &'a Report,
}

/// What a model said in one call.
#[derive(Debug, Default)]
struct Said {
    text: String,
    tool_uses: Vec<ToolUse>,
}

impl ModelAgent {
    /// What is missing for it to be asked at all; told before anything is streamed.
    pub(crate) fn unready(&self) -> Option<String> {
        let provider = self.endpoint.provider;
        self.endpoint.key.is_empty().then(|| {
            let (name, variable) = (provider.name(), provider.key_variable());
            format!("provider error: no API key for provider '{name}'. Set {variable} env var.")
        })
    }

    /// Answers a message; gives all that was said.
    pub(crate) async fn answer(
        &self,
        question: &Question<'_>,
        mut work: Work<'_>,
    ) -> Result<String, AgentError> {
        let system =
            [self.system.as_deref(), question.facts].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        let mut messages = messages_of(question);
        let mut answer = String::new();
        for _ in 0..MODEL_CALLS_MAX {
            let prompt = Prompt {
                model: &self.model,
                tokens_max: self.tokens_max,
                system: (!system.is_empty()).then_some(system.as_str()),
                messages: &messages,
                tools: &work.toolbox.tools,
            };
            let said = self.ask(question.session, &prompt, &work).await?;
            answer.push_str(&said.text);
            if said.tool_uses.is_empty() {
                return Ok(answer);
            }
            let results = run_tools(&said.tool_uses, &mut work).await?;
            messages.push(Message::Assistant { text: said.text, tool_uses: said.tool_uses });
            messages.push(Message::ToolResults(results));
        }
        Err(AgentError::Failed("tool-use loop exceeded max iterations".to_owned()))
    }

    /// One call of the model, told as it arrives, and what it cost.
    async fn ask(
        &self,
        session: &SessionId,
        prompt: &Prompt<'_>,
        work: &Work<'_>,
    ) -> Result<Said, AgentError> {
        let failed = |error: call::CallError| AgentError::Failed(error.to_string());
        let mut answer = call::ask(work.http, &self.endpoint, prompt).await.map_err(failed)?;
        let mut cost = Cost { agent: self, session, store: work.store, usage: Usage::default() };
        let mut said = Said::default();
        loop {
            let piece = answer.next().await;
            cost.usage = answer.usage();
            match piece.map_err(failed)? {
                Some(Piece::Text(text)) => {
                    said.text.push_str(&text);
                    work.report.event(Event::Text(text)).await?;
                }
                Some(Piece::ToolUse(tool_use)) => {
                    let told = ToolUse { name: told_name(&work.toolbox, &tool_use.name), ..tool_use.clone() };
                    said.tool_uses.push(tool_use);
                    work.report.event(Event::ToolUse(told)).await?;
                }
                Some(Piece::End) => {}
                None => break,
            }
        }
        work.report.event(Event::Usage(cost.usage)).await?;
        Ok(said)
    }
}

fn messages_of(question: &Question<'_>) -> Vec<Message> {
    let turns = question.turns.iter().flat_map(|turn| {
        let said = Message::Assistant { text: turn.assistant.clone(), tool_uses: Vec::new() };
        [Message::User(turn.user.clone()), said]
    });
    turns.chain([Message::User(question.content.to_owned())]).collect()
}

/// Clients know bindings, not what providers make of their names.
fn told_name(toolbox: &Toolbox, tool: &str) -> String {
    toolbox.action(tool).map_or(tool, |action| action.name()).to_owned()
}

async fn run_tools(tool_uses: &[ToolUse], work: &mut Work<'_>) -> Result<Vec<ToolResult>, AgentError> {
    let mut results = Vec::with_capacity(tool_uses.len());
    for tool_use in tool_uses {
        let outcome = match work.toolbox.action(&tool_use.name) {
            Some(action) => work.workspace.run(action, &tool_use.input).await,
            None => Err(format!("unknown tool: {}", tool_use.name)),
        };
        let is_error = outcome.is_err();
        let (Ok(content) | Err(content)) = outcome;
        let result = ToolResult { content, is_error, tool_use_id: tool_use.id.clone() };
        work.report.event(Event::ToolResult(result.clone())).await?;
        results.push(result);
    }
    Ok(results)
}

/// Puts down what a call cost when it ends, however it ends: a client that leaves early has used it as well.
struct Cost<'a> {
    agent: &'a ModelAgent,
    session: &'a SessionId,
    store: &'a Store,
    usage: Usage,
}

impl Drop for Cost<'_> {
    fn drop(&mut self) {
        if self.usage.total() > 0 {
            self.store.spend(Spent {
                session: self.session.clone(),
                model: self.agent.model.clone(),
                usage: self.usage,
                seconds: now_seconds(),
            });
        }
    }
}

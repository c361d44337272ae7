//! Processes one message, from its arrival to the end of its answer.
//!
//! A rejection is sent as a plain response before the first event; after that, every answer ends
//! with `done`. The context is loaded while the session is locked, so that a message that waited
//! sees the turn before it. The lock is held until the turn is saved and `done` is sent. Dropping
//! the future at any point releases the lock, and the turn is not saved.

use std::sync::Arc;

use super::agents::model::ModelResources;
use super::agents::{AgentError, AgentRequest};
use super::budget;
use super::facts;
use super::gateway::{Agent, Gateway, RequestError};
use super::locks::SessionGuard;
use super::now_seconds;
use super::progress::{ClientGone, ProgressSender};
use super::route::SessionId;
use super::store::{ChatContext, Turn};
use super::tool_session::ToolSession;
use super::wire::{ChatSendParams, Event};
use crate::binding::Principal;

pub(super) async fn serve(
    gateway: &Gateway,
    principal: Arc<Principal>,
    params: &ChatSendParams,
    progress: &ProgressSender,
) -> Result<(), ClientGone> {
    match start_chat(gateway, &principal, params).await {
        Ok(chat) => chat.run(gateway, principal, params, progress).await,
        Err(error) => progress.send_response(Err(error.to_string())).await,
    }
}

/// An accepted message, with its session locked.
struct Chat {
    session: SessionId,
    agent: Agent,
    context: ChatContext,
    _guard: SessionGuard,
}

/// Waits for the session, and checks everything that can reject the message.
async fn start_chat(
    gateway: &Gateway,
    principal: &Principal,
    params: &ChatSendParams,
) -> Result<Chat, RequestError> {
    let origin = params.origin();
    let session = gateway.find_session(&origin, principal)?;
    gateway.store.touch_session(session.clone(), now_seconds()).await?;
    let guard = gateway.locks.lock(&session).await;
    let agent = gateway.find_agent(&session, &origin)?;
    let context = gateway.store.load_context(session.clone(), gateway.window, now_seconds()).await?;
    let texts = context.turns.iter().flat_map(|turn| [turn.user.as_str(), turn.assistant.as_str()]);
    let estimate = budget::estimate_tokens(texts.chain([params.content.as_str()]));
    gateway
        .budgets
        .check(&session, &context.usage, estimate)
        .map_err(|exceeded| RequestError::Rejected(exceeded.to_string()))?;
    if let Agent::Model(model) = &agent {
        model.check_key().map_err(RequestError::Rejected)?;
    }
    Ok(Chat { session, agent, context, _guard: guard })
}

impl Chat {
    async fn run(
        self,
        gateway: &Gateway,
        principal: Arc<Principal>,
        params: &ChatSendParams,
        progress: &ProgressSender,
    ) -> Result<(), ClientGone> {
        let result = match self.call_agent(gateway, principal, params, progress).await {
            Ok(answer) => self.save_turn(gateway, params, answer).await.map_err(|error| error.to_string()),
            Err(AgentError::Failed(message)) => Err(message),
            Err(AgentError::ClientGone(gone)) => return Err(gone),
        };
        if let Err(message) = result {
            tracing::warn!(session = %self.session, error = message, "exoclaw chat failed");
            progress.send_event(Event::Error(message)).await?;
        }
        progress.send_event(Event::Done).await
    }

    async fn call_agent(
        &self,
        gateway: &Gateway,
        principal: Arc<Principal>,
        params: &ChatSendParams,
        progress: &ProgressSender,
    ) -> Result<String, AgentError> {
        let known_facts = if gateway.stores_facts { self.context.facts.clone() } else { Vec::new() };
        let facts = facts::format_facts(&facts::sort_by_relevance(known_facts, &params.content));
        let request = AgentRequest {
            session: &self.session,
            content: &params.content,
            turns: &self.context.turns,
            facts: facts.as_deref(),
        };
        let failed = |error: RequestError| AgentError::Failed(error.to_string());
        match &self.agent {
            Agent::Script(script) => script.answer(&request, &gateway.store, progress).await,
            Agent::Model(model) => {
                let toolbox = gateway.toolbox(&self.session.agent).await.map_err(failed)?;
                let host = gateway.host().map_err(failed)?.clone();
                let tool_session = ToolSession::new(host, principal, gateway.runtime.clone());
                let (http, store) = (&gateway.http, &gateway.store);
                model.answer(&request, ModelResources { http, store, toolbox, tool_session, progress }).await
            }
        }
    }

    /// An empty answer is not saved: providers reject a history that contains an empty message.
    async fn save_turn(
        &self,
        gateway: &Gateway,
        params: &ChatSendParams,
        answer: String,
    ) -> Result<(), RequestError> {
        if answer.is_empty() {
            return Ok(());
        }
        let facts = if gateway.stores_facts { facts::extract_facts(&params.content) } else { Vec::new() };
        let turn = Turn { at: now_seconds(), user: params.content.clone(), assistant: answer };
        Ok(gateway.store.save_turn(self.session.clone(), turn, facts).await?)
    }
}

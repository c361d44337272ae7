//! One message, from its arrival to the end of its answer.
//!
//! What can be refused is refused before the first event, with a plain answer; after that every end is a `done`. The
//! context is read once the session is ours, so that a message that waited knows the turn it waited for. The session
//! stays ours until the turn is kept and `done` is on its way. Dropping the future at any point is fine: the session
//! is free again, and the turn was not kept.

use std::sync::Arc;

use super::agents::model::Work;
use super::agents::{AgentError, Question};
use super::budget;
use super::facts;
use super::gateway::{Agent, Gateway, RequestError};
use super::locks::SessionGuard;
use super::now_seconds;
use super::report::{ClientGone, Report};
use super::route::SessionId;
use super::store::{Context, Turn};
use super::wire::{ChatSendParams, Event};
use super::workspace::Workspace;
use crate::binding::Principal;

/// Answers a message.
pub(super) async fn serve(
    gateway: &Gateway,
    principal: Arc<Principal>,
    chat: &ChatSendParams,
    report: &Report,
) -> Result<(), ClientGone> {
    match begin(gateway, &principal, chat).await {
        Ok(begun) => begun.answer(gateway, principal, chat, report).await,
        Err(refused) => report.answer(Err(refused.to_string())).await,
    }
}

/// A chat that nothing stands in the way of.
struct Begun {
    session: SessionId,
    agent: Agent,
    context: Context,
    _ours: SessionGuard,
}

async fn begin(
    gateway: &Gateway,
    principal: &Principal,
    chat: &ChatSendParams,
) -> Result<Begun, RequestError> {
    let origin = chat.origin();
    let session = gateway.session(&origin, principal)?;
    gateway.store.touch(session.clone(), now_seconds()).await?;
    let ours = gateway.locks.lock(&session).await;
    let agent = gateway.agent(&session, &origin)?;
    let context = gateway.store.context(session.clone(), gateway.window, now_seconds()).await?;
    let texts = context.turns.iter().flat_map(|turn| [turn.user.as_str(), turn.assistant.as_str()]);
    let estimate = budget::estimate(texts.chain([chat.content.as_str()]));
    let refused = |text: String| RequestError::Refused(text);
    gateway
        .budgets
        .check(&session, &context.used, estimate)
        .map_err(|exceeded| refused(exceeded.to_string()))?;
    if let Agent::Model(model) = &agent
        && let Some(missing) = model.unready()
    {
        return Err(refused(missing));
    }
    Ok(Begun { session, agent, context, _ours: ours })
}

impl Begun {
    async fn answer(
        self,
        gateway: &Gateway,
        principal: Arc<Principal>,
        chat: &ChatSendParams,
        report: &Report,
    ) -> Result<(), ClientGone> {
        let outcome = match self.ask(gateway, principal, chat, report).await {
            Ok(answer) => self.keep(gateway, chat, answer).await.map_err(|error| error.to_string()),
            Err(AgentError::Failed(text)) => Err(text),
            Err(AgentError::ClientGone(gone)) => return Err(gone),
        };
        if let Err(text) = outcome {
            tracing::warn!(session = %self.session, error = text, "a chat failed");
            report.event(Event::Error(text)).await?;
        }
        report.event(Event::Done).await
    }

    async fn ask(
        &self,
        gateway: &Gateway,
        principal: Arc<Principal>,
        chat: &ChatSendParams,
        report: &Report,
    ) -> Result<String, AgentError> {
        let known = if gateway.keeps_facts { self.context.facts.clone() } else { Vec::new() };
        let facts = facts::told(&facts::by_relevance(known, &chat.content));
        let question = Question {
            session: &self.session,
            content: &chat.content,
            turns: &self.context.turns,
            facts: facts.as_deref(),
        };
        let failed = |error: RequestError| AgentError::Failed(error.to_string());
        match &self.agent {
            Agent::Script(script) => script.answer(&question, &gateway.store, report).await,
            Agent::Model(model) => {
                let toolbox = gateway.toolbox(&self.session.agent).await.map_err(failed)?;
                let host = gateway.host().map_err(failed)?.clone();
                let workspace = Workspace::new(host, principal, gateway.runtime.clone());
                let work = Work { http: &gateway.http, store: &gateway.store, toolbox, workspace, report };
                model.answer(&question, work).await
            }
        }
    }

    /// An empty answer is no turn: providers refuse a history with an empty message in it.
    async fn keep(
        &self,
        gateway: &Gateway,
        chat: &ChatSendParams,
        answer: String,
    ) -> Result<(), RequestError> {
        if answer.is_empty() {
            return Ok(());
        }
        let stated = if gateway.keeps_facts { facts::stated_in(&chat.content) } else { Vec::new() };
        let turn = Turn { at: now_seconds(), user: chat.content.clone(), assistant: answer };
        Ok(gateway.store.keep_turn(self.session.clone(), turn, stated).await?)
    }
}

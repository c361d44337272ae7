//! Serves requests: passes chats on, and answers the methods that have a single response.

use std::sync::Arc;

use serde_json::{Value, json};

use super::chat;
use super::facts;
use super::gateway::{Gateway, RequestError};
use super::now_seconds;
use super::progress::{ClientGone, ProgressSender};
use super::wire::{Call, ChatHistoryParams, MemorySearchParams, Origin, SessionListParams};
use crate::binding::Principal;

pub(super) async fn serve(
    gateway: &Gateway,
    principal: Arc<Principal>,
    call: Call,
    progress: &ProgressSender,
) -> Result<(), ClientGone> {
    let outcome = match call {
        Call::ChatSend(params) => return chat::serve(gateway, principal, &params, progress).await,
        Call::Ping => Ok(json!("pong")),
        Call::Status => gateway.status(&principal).await,
        Call::PluginList => list_plugins(gateway).await,
        Call::ChatHistory(params) => load_history(gateway, &principal, params).await,
        Call::SessionList(params) => list_sessions(gateway, &principal, params).await,
        Call::SessionClear(origin) => clear_session(gateway, &principal, &origin).await,
        Call::BudgetStatus(origin) => load_budget_status(gateway, &principal, origin.as_ref()).await,
        Call::MemorySearch(params) => search_memory(gateway, &principal, params).await,
    };
    progress.send_response(outcome.map_err(|error| error.to_string())).await
}

async fn list_plugins(gateway: &Gateway) -> Result<Value, RequestError> {
    Ok(gateway.tool_names().await?.into_iter().map(|name| json!({"name": name})).collect())
}

async fn load_history(
    gateway: &Gateway,
    principal: &Principal,
    params: ChatHistoryParams,
) -> Result<Value, RequestError> {
    let session = gateway.find_session(&params.origin, principal)?;
    let turns = gateway.store.load_turns(session.clone(), params.limit.get()).await?;
    let messages: Vec<Value> = turns
        .into_iter()
        .flat_map(|turn| {
            let message =
                |role: &str, content: String| json!({"role": role, "content": content, "at": turn.at});
            [message("user", turn.user), message("assistant", turn.assistant)]
        })
        .collect();
    Ok(json!({"session": session.to_string(), "messages": messages}))
}

async fn list_sessions(
    gateway: &Gateway,
    principal: &Principal,
    params: SessionListParams,
) -> Result<Value, RequestError> {
    let namespace = gateway.namespace(principal).to_owned();
    let summaries = gateway.store.list_sessions(namespace, params.limit.get()).await?;
    let entries = summaries.into_iter().map(|summary| {
        let mut entry = json!(summary.session);
        entry["session"] = json!(summary.session.to_string());
        entry["turns"] = json!(summary.turns);
        entry["tokens"] = json!(summary.tokens);
        entry["last_used_at"] = json!(summary.used_at);
        entry
    });
    Ok(entries.collect())
}

/// Waits for the running chat of the session, which would save its turn afterwards.
async fn clear_session(
    gateway: &Gateway,
    principal: &Principal,
    origin: &Origin,
) -> Result<Value, RequestError> {
    let session = gateway.find_session(origin, principal)?;
    let _guard = gateway.locks.lock(&session).await;
    let cleared = gateway.store.clear_turns(session.clone()).await?;
    Ok(json!({"session": session.to_string(), "cleared": cleared}))
}

async fn load_budget_status(
    gateway: &Gateway,
    principal: &Principal,
    origin: Option<&Origin>,
) -> Result<Value, RequestError> {
    let session = origin.map(|origin| gateway.find_session(origin, principal)).transpose()?;
    let usage = gateway.store.load_usage(session.clone(), now_seconds()).await?;
    let budgets = &gateway.budgets;
    let scope = |used: u64, limit: Option<u64>| json!({"used": used, "limit": limit});
    let mut status =
        json!({"daily": scope(usage.daily, budgets.daily), "monthly": scope(usage.monthly, budgets.monthly)});
    if let Some(session) = session {
        status["session"] = scope(usage.session, budgets.session);
        status["session"]["key"] = json!(session.to_string());
    }
    Ok(status)
}

async fn search_memory(
    gateway: &Gateway,
    principal: &Principal,
    params: MemorySearchParams,
) -> Result<Value, RequestError> {
    let namespace = gateway.namespace(principal).to_owned();
    let facts = gateway.store.load_facts(namespace, params.channel, params.account).await?;
    let mut matching = facts::search_facts(facts, &params.query);
    matching.truncate(params.limit.get());
    Ok(json!(matching))
}

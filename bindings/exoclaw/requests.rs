//! The requests that have one answer: what there is, what is remembered, what may still be used.

use std::sync::Arc;

use serde_json::{Value, json};

use super::chat;
use super::facts;
use super::gateway::{Gateway, RequestError};
use super::now_seconds;
use super::report::{ClientGone, Report};
use super::wire::{Call, ChatHistoryParams, MemorySearchParams, Origin, SessionListParams};
use crate::binding::Principal;

/// Serves a request to its end.
pub(super) async fn serve(
    gateway: &Gateway,
    principal: Arc<Principal>,
    call: Call,
    report: &Report,
) -> Result<(), ClientGone> {
    let outcome = match call {
        Call::ChatSend(params) => return chat::serve(gateway, principal, &params, report).await,
        Call::Ping => Ok(json!("pong")),
        Call::Status => gateway.status(&principal).await,
        Call::PluginList => plugins(gateway).await,
        Call::ChatHistory(params) => history(gateway, &principal, params).await,
        Call::SessionList(params) => sessions(gateway, &principal, params).await,
        Call::SessionClear(origin) => clear(gateway, &principal, &origin).await,
        Call::BudgetStatus(origin) => budget(gateway, &principal, origin.as_ref()).await,
        Call::MemorySearch(params) => search(gateway, &principal, params).await,
    };
    report.answer(outcome.map_err(|error| error.to_string())).await
}

async fn plugins(gateway: &Gateway) -> Result<Value, RequestError> {
    Ok(gateway.tools().await?.into_iter().map(|name| json!({"name": name})).collect())
}

async fn history(
    gateway: &Gateway,
    principal: &Principal,
    params: ChatHistoryParams,
) -> Result<Value, RequestError> {
    let session = gateway.session(&params.origin, principal)?;
    let turns = gateway.store.turns(session.clone(), params.limit.get()).await?;
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

async fn sessions(
    gateway: &Gateway,
    principal: &Principal,
    params: SessionListParams,
) -> Result<Value, RequestError> {
    let listed = gateway.store.sessions(gateway.namespace(principal).to_owned(), params.limit.get()).await?;
    let described = listed.into_iter().map(|listed| {
        let mut entry = json!(listed.session);
        entry["session"] = json!(listed.session.to_string());
        entry["turns"] = json!(listed.turns);
        entry["tokens"] = json!(listed.tokens);
        entry["last_used_at"] = json!(listed.used_at);
        entry
    });
    Ok(described.collect())
}

/// Waits for the chat under way, whose turn would come back otherwise.
async fn clear(gateway: &Gateway, principal: &Principal, origin: &Origin) -> Result<Value, RequestError> {
    let session = gateway.session(origin, principal)?;
    let _ours = gateway.locks.lock(&session).await;
    let cleared = gateway.store.clear(session.clone()).await?;
    Ok(json!({"session": session.to_string(), "cleared": cleared}))
}

async fn budget(
    gateway: &Gateway,
    principal: &Principal,
    origin: Option<&Origin>,
) -> Result<Value, RequestError> {
    let session = origin.map(|origin| gateway.session(origin, principal)).transpose()?;
    let used = gateway.store.used(session.clone(), now_seconds()).await?;
    let budgets = &gateway.budgets;
    let scope = |used: u64, limit: Option<u64>| json!({"used": used, "limit": limit});
    let mut status =
        json!({"daily": scope(used.daily, budgets.daily), "monthly": scope(used.monthly, budgets.monthly)});
    if let Some(session) = session {
        status["session"] = scope(used.session, budgets.session);
        status["session"]["key"] = json!(session.to_string());
    }
    Ok(status)
}

async fn search(
    gateway: &Gateway,
    principal: &Principal,
    params: MemorySearchParams,
) -> Result<Value, RequestError> {
    let known =
        gateway.store.facts(gateway.namespace(principal).to_owned(), params.channel, params.account).await?;
    let mut found = facts::matching(known, &params.query);
    found.truncate(params.limit.get());
    Ok(json!(found))
}

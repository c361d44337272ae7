//! The session service: the session commands of openclaw, as `request` frames to the gateway
//! itself.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::GatewayError;
use super::super::content::SessionRequest;
use super::super::wire::{FrameType, gateway_frame};
use super::{Gateway, Step};

impl Gateway {
    pub(super) fn serve_session(
        &mut self,
        id: ConnectionId,
        request: SessionRequest,
        correlation_id: Option<&str>,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let result = self.handle_session_request(id, request, step)?;
        let content = json!({"result": result});
        step.send(id, gateway_frame(FrameType::Response, content, correlation_id, step.now_ms));
        Ok(())
    }

    fn handle_session_request(
        &mut self,
        id: ConnectionId,
        request: SessionRequest,
        step: &mut Step<'_>,
    ) -> Result<Value, GatewayError> {
        if let Some(agent) = request.agent() {
            self.check_session_access(id, agent, step)?;
        }
        match request {
            SessionRequest::Create { agent, session_id } => {
                self.store_owner(&agent, step)?;
                let session_id = session_id.unwrap_or_else(|| format!("sess-{}", self.next_id()));
                step.sessions.create(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id}))
            }
            SessionRequest::List { agent: Some(agent) } => {
                Ok(json!({"sessions": step.sessions.list(&agent)?}))
            }
            SessionRequest::Export { agent, session_id } => {
                let data = step.sessions.export(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "format": "jsonl", "data": data}))
            }
            SessionRequest::Import { agent, session_id, data } => {
                self.store_owner(&agent, step)?;
                let session_id = session_id.unwrap_or_else(|| format!("sess-{}", self.next_id()));
                let imported = step.sessions.import(&agent, &session_id, &data)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "imported": imported}))
            }
            SessionRequest::List { agent: None } => Ok(self.list_all_sessions(id, step)),
            SessionRequest::Get { agent, session_id } => {
                let entries = step.sessions.get(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "entries": entries}))
            }
            SessionRequest::Commit { agent, session_id } => {
                step.sessions.commit(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "committed": true}))
            }
            SessionRequest::Archive { agent, selection } => Ok(
                json!({"agent": agent, "archived": step.sessions.archive(&agent, &selection, step.now_ms)?}),
            ),
            SessionRequest::Delete { agent, session_id } => {
                step.sessions.delete(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "deleted": true}))
            }
        }
    }

    /// Lists the sessions of all agents that the client may access. A workspace that cannot be read
    /// is listed as unreadable, and does not hide the others.
    fn list_all_sessions(&self, id: ConnectionId, step: &mut Step<'_>) -> Value {
        let mut sessions = Vec::new();
        let mut unreadable = Vec::new();
        for agent in self.registry.names() {
            if self.check_session_access(id, agent, step).is_err() {
                continue;
            }
            match step.sessions.list(agent) {
                Ok(found) => sessions.extend(found),
                Err(error) => {
                    let (code, name) = GatewayError::from(error).code.parts();
                    unreadable.push(json!({"agent": agent, "error": name, "code": code}));
                }
            }
        }
        let mut result = json!({"sessions": sessions});
        if !unreadable.is_empty() {
            result["unreadable"] = json!(unreadable);
        }
        result
    }
}

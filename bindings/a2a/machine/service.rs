//! The session service: what the openclaw commands do, asked for by a `request` to the gateway itself.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::Refusal;
use super::super::content::SessionRequest;
use super::super::wire::{Type, from_gateway};
use super::{Gateway, Turn};

impl Gateway {
    pub(super) fn serve_session(
        &mut self,
        id: ConnectionId,
        request: SessionRequest,
        correlation_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let result = self.session_result(id, request, turn)?;
        let content = json!({"result": result});
        turn.send(id, from_gateway(Type::Response, content, correlation_id, turn.now_ms));
        Ok(())
    }

    fn session_result(
        &mut self,
        id: ConnectionId,
        request: SessionRequest,
        turn: &mut Turn<'_>,
    ) -> Result<Value, Refusal> {
        if let Some(agent) = request.agent() {
            self.check_sessions(id, agent, turn)?;
        }
        match request {
            SessionRequest::Create { agent, session_id } => {
                self.keep_owner(&agent, turn)?;
                let session_id = session_id.unwrap_or_else(|| format!("sess-{}", self.next_number()));
                turn.sessions.create(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id}))
            }
            SessionRequest::List { agent: Some(agent) } => {
                Ok(json!({"sessions": turn.sessions.list(&agent)?}))
            }
            SessionRequest::Export { agent, session_id } => {
                let data = turn.sessions.export(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "format": "jsonl", "data": data}))
            }
            SessionRequest::Import { agent, session_id, data } => {
                self.keep_owner(&agent, turn)?;
                let session_id = session_id.unwrap_or_else(|| format!("sess-{}", self.next_number()));
                let imported = turn.sessions.import(&agent, &session_id, &data)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "imported": imported}))
            }
            SessionRequest::List { agent: None } => Ok(self.list_all(id, turn)),
            SessionRequest::Get { agent, session_id } => {
                let entries = turn.sessions.get(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "entries": entries}))
            }
            SessionRequest::Commit { agent, session_id } => {
                turn.sessions.commit(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "committed": true}))
            }
            SessionRequest::Archive { agent, which } => {
                Ok(json!({"agent": agent, "archived": turn.sessions.archive(&agent, &which, turn.now_ms)?}))
            }
            SessionRequest::Delete { agent, session_id } => {
                turn.sessions.delete(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "deleted": true}))
            }
        }
    }

    /// The sessions of all agents of the client's owner. One workspace that cannot be read does not hide the others, nor is it passed over.
    fn list_all(&self, id: ConnectionId, turn: &mut Turn<'_>) -> Value {
        let mut sessions = Vec::new();
        let mut unreadable = Vec::new();
        for agent in self.registry.names() {
            if self.check_sessions(id, agent, turn).is_err() {
                continue;
            }
            match turn.sessions.list(agent) {
                Ok(found) => sessions.extend(found),
                Err(error) => {
                    let (code, name) = Refusal::from(error).code.parts();
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

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
        let result = self.session_result(request, turn)?;
        let content = json!({"result": result});
        turn.send(id, from_gateway(Type::Response, content, correlation_id, turn.now_ms));
        Ok(())
    }

    fn session_result(&mut self, request: SessionRequest, turn: &mut Turn<'_>) -> Result<Value, Refusal> {
        match request {
            SessionRequest::Create { agent, session_id } => {
                self.registry.known(&agent)?;
                let session_id = session_id.unwrap_or_else(|| format!("sess-{}", self.next_number()));
                turn.sessions.create(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id}))
            }
            SessionRequest::List { agent: Some(agent) } => {
                self.registry.known(&agent)?;
                Ok(json!({"sessions": turn.sessions.list(&agent)?}))
            }
            SessionRequest::List { agent: None } => Ok(self.list_all(turn)),
            SessionRequest::Get { agent, session_id } => {
                self.registry.known(&agent)?;
                let entries = turn.sessions.get(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "entries": entries}))
            }
            SessionRequest::Commit { agent, session_id } => {
                self.registry.known(&agent)?;
                turn.sessions.commit(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "committed": true}))
            }
            SessionRequest::Archive { agent, which } => {
                self.registry.known(&agent)?;
                Ok(json!({"agent": agent, "archived": turn.sessions.archive(&agent, &which, turn.now_ms)?}))
            }
            SessionRequest::Delete { agent, session_id } => {
                self.registry.known(&agent)?;
                turn.sessions.delete(&agent, &session_id)?;
                Ok(json!({"agent": agent, "sessionId": session_id, "deleted": true}))
            }
        }
    }

    /// The sessions of all agents. One workspace that cannot be read does not hide the others, nor is it passed over.
    fn list_all(&self, turn: &mut Turn<'_>) -> Value {
        let mut sessions = Vec::new();
        let mut unreadable = Vec::new();
        for agent in self.registry.names() {
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

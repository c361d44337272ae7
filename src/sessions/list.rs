//! The list of sessions, as far as the principal that asks may see it.

use super::Directory;
use crate::binding::{MissingRole, Principal, Role};
use crate::session::boundary::SessionInfo;

/// A session as the operator sees it.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub principal: String,
    /// Whether a connection holds it.
    pub connected: bool,
    /// How it is doing, if it answered.
    pub info: Option<SessionInfo>,
}

/// Whose sessions a listing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListScope {
    /// Those of the principal that asks.
    Own,
    /// Those of every principal; for operators.
    All,
}

impl Directory {
    /// Up to `most` sessions with their state.
    pub(crate) async fn list(&self, most: usize) -> Vec<Listed> {
        self.list_of(None, most).await
    }

    /// Up to `most` sessions with their state, as `principal` may see them: its own, or, for an operator, all.
    pub(crate) async fn list_for(
        &self,
        principal: &Principal,
        scope: ListScope,
        most: usize,
    ) -> Result<Vec<Listed>, MissingRole> {
        match scope {
            ListScope::Own => Ok(self.list_of(Some(&principal.name), most).await),
            ListScope::All => {
                principal.roles.require(Role::Operator)?;
                Ok(self.list(most).await)
            }
        }
    }

    async fn list_of(&self, principal: Option<&str>, most: usize) -> Vec<Listed> {
        let records = self.table.list(principal, most).await.unwrap_or_else(|error| {
            tracing::error!(%error, "sessions were not listed");
            Vec::new()
        });
        let mut listed = Vec::with_capacity(records.len());
        for record in records {
            // A record of a session that is gone is removed later.
            if let Some(link) = self.live.link(&record.id) {
                let (id, principal) = (record.id.to_string(), record.principal.to_string());
                let (connected, info) = (record.expires_at.is_none(), link.inspect().await);
                listed.push(Listed { id, principal, connected, info });
            } else if self.is_stored(&record.id) {
                let (id, principal) = (record.id.to_string(), record.principal.to_string());
                listed.push(Listed { id, principal, connected: false, info: None });
            }
        }
        listed
    }

    /// Whether no eval runs or waits here.
    pub(crate) async fn is_idle(&self) -> bool {
        for link in self.live.links() {
            if link.inspect().await.is_some_and(|info| info.running || info.evals_queued > 0) {
                return false;
            }
        }
        true
    }
}

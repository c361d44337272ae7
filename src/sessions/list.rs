//! The list of sessions, as far as the principal that asks may see it.

use std::sync::Arc;

use super::Directory;
use super::SessionLink;
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
    pub async fn list(&self, most: usize) -> Vec<Listed> {
        self.list_where(most, |_| true).await
    }

    /// Up to `most` sessions with their state, as `principal` may see them: its own, or, for an operator, all.
    pub(crate) async fn list_for(
        &self,
        principal: &Principal,
        scope: ListScope,
        most: usize,
    ) -> Result<Vec<Listed>, MissingRole> {
        match scope {
            ListScope::Own => Ok(self.list_where(most, |owner| owner == principal.name).await),
            ListScope::All => {
                principal.roles.require(Role::Operator)?;
                Ok(self.list(most).await)
            }
        }
    }

    async fn list_where(&self, most: usize, is_wanted: impl Fn(&str) -> bool) -> Vec<Listed> {
        let links: Vec<(String, String, bool, Arc<SessionLink>)> = self
            .sessions
            .lock()
            .iter()
            .filter(|(_, entry)| is_wanted(&entry.principal.name))
            .take(most)
            .map(|(id, entry)| {
                let connected = entry.detached_at.is_none();
                (id.clone(), entry.principal.name.clone(), connected, Arc::clone(&entry.link))
            })
            .collect();
        let mut listed = Vec::with_capacity(links.len());
        for (id, principal, connected, link) in links {
            listed.push(Listed { id, principal, connected, info: link.inspect().await });
        }
        listed
    }
}

//! The sessions as an operator sees them.

use super::Directory;
use crate::runtime::{SessionHandle, SessionInfo};

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

impl Directory {
    /// Up to `most` sessions with their state.
    pub async fn list(&self, most: usize) -> Vec<Listed> {
        self.list_where(most, |_| true).await
    }

    /// Up to `most` sessions of a principal with their state.
    pub(crate) async fn list_of(&self, principal: &str, most: usize) -> Vec<Listed> {
        self.list_where(most, |owner| owner == principal).await
    }

    async fn list_where(&self, most: usize, is_wanted: impl Fn(&str) -> bool) -> Vec<Listed> {
        let handles: Vec<(String, String, bool, SessionHandle)> = self
            .sessions
            .lock()
            .iter()
            .filter(|(_, entry)| is_wanted(&entry.principal.name))
            .take(most)
            .map(|(id, entry)| {
                let connected = entry.detached_at.is_none();
                (id.clone(), entry.principal.name.clone(), connected, entry.handle.clone())
            })
            .collect();
        let mut listed = Vec::with_capacity(handles.len());
        for (id, principal, connected, handle) in handles {
            listed.push(Listed { id, principal, connected, info: handle.inspect().await });
        }
        listed
    }
}

//! What of a running server can be replaced: who may connect, the certificate, and the packages. Sessions live on.

use std::sync::Arc;

use super::{Gate, Server, StartError, Tls, start};
use crate::binding::DeclarationProblem;
use crate::package::PackageDef;
use crate::package::loader::{Environment, Reloaded, Sources, reload};

/// Why nothing was replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Something is wrong with the packages.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Packages(Vec<DeclarationProblem>),
    /// Policies name bindings or effects that do not exist.
    #[error(transparent)]
    Policies(#[from] StartError),
    /// A server that asks for tokens cannot become one that does not, or the other way round: what it listens on depends
    /// on it.
    #[error("tokens were added to a server without any, or all were removed; this needs a restart")]
    Openness,
}

impl Server {
    /// Replaces who may connect. Connections and sessions go on with the principal that opened them; their policy is that
    /// of the moment they were opened. Principals with unchanged quotas keep their accounts.
    pub fn replace_gate(&self, mut gate: Gate) -> Result<(), ReloadError> {
        let before = self.state.gate();
        if gate.is_open() != before.is_open() {
            return Err(ReloadError::Openness);
        }
        let catalog = self.state.directory.handlers().catalog();
        start::refuse_unknown_names(&gate, &self.state.additions.policies, &catalog)?;
        gate.keep_accounts(&before);
        *self.state.gate.write() = Arc::new(gate);
        Ok(())
    }

    /// Replaces the certificate for connections from now on; a server without one stays so.
    pub fn replace_tls(&self, tls: Tls) {
        let mut current = self.state.tls.write();
        if current.is_some() {
            *current = Some(tls);
        }
    }

    /// Reads the declaration files anew and replaces the packages that changed; scripts see their bindings from the next
    /// eval on, in the next version of the catalog.
    pub async fn reload_packages(
        &self,
        sources: Sources<'_>,
        env: &Environment,
        built_in: &[PackageDef],
    ) -> Result<Reloaded, ReloadError> {
        let mut live = self.state.additions.live.lock().await;
        let handlers = self.state.directory.handlers();
        let reloaded = reload::reload(&mut live, handlers, sources, env, built_in).await;
        reloaded.map_err(ReloadError::Packages)
    }
}

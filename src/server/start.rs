//! Why a server cannot be started.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Gate;
use crate::binding::{Policy, PolicyNames, UnknownName};
use crate::catalog::Catalog;
use crate::limits::{DURATION_MS_MAX, SettingsError};
use crate::package::PackageError;
use crate::runtime::{hold_slots, image_build, new_base};
use crate::sessions::IsolationError;
use crate::store::{FileStore, StateSettings, Store as _, StoreError};

/// Why a server could not be built.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Something is wrong with the bindings.
    #[error(transparent)]
    Bindings(#[from] PackageError),
    /// Policies name bindings or effects that do not exist, so they would not restrict what they seem to.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Policies(Vec<UnknownName>),
    /// Limits or other settings that would crash the server, or with which it could serve nothing.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The state folder cannot be used.
    #[error("state.dir: {0}")]
    State(String),
    /// Sessions cannot be walled off as the settings want it.
    #[error(transparent)]
    Isolation(#[from] IsolationError),
    /// The keys of an authorization server cannot be used.
    #[error("{0}")]
    Oauth(String),
    /// An error of the operating system.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

/// The names in the policies of tokens and of packages that do not exist on a server with these bindings.
pub fn check_policies(gate: &Gate, of_packages: &[(String, Policy)], catalog: &Catalog) -> Vec<UnknownName> {
    let names = PolicyNames::of(catalog);
    let mut unknown = gate.check_policies(&names);
    unknown.extend(of_packages.iter().flat_map(|(place, policy)| names.check(place, policy)));
    unknown
}

/// Opens the state folder, if there is one, and keeps the address windows of its sessions for them. Before any context is
/// made: where their windows are is decided then.
pub(super) fn open_store(
    settings: &StateSettings,
    ttl_ms: u64,
) -> Result<Option<Arc<FileStore>>, StartError> {
    if settings.dir.is_none() {
        return Ok(None);
    }
    let wrong = |error: StoreError| StartError::State(format!("{error} ({})", error.kind()));
    let build = image_build().map_err(|error| wrong(error.into()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let detached_until_ms =
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_add(ttl_ms.min(DURATION_MS_MAX));
    let Some(store) = FileStore::open(settings, &build, new_base(), detached_until_ms).map_err(wrong)? else {
        return Ok(None);
    };
    let slots = store.list().into_iter().map(|session| session.slot);
    hold_slots(store.base(), slots).map_err(|error| StartError::State(error.to_string()))?;
    Ok(Some(Arc::new(store)))
}

/// Fails with the names that are errors; logs the others.
pub(super) fn refuse_unknown_names(
    gate: &Gate,
    of_packages: &[(String, Policy)],
    catalog: &Catalog,
) -> Result<(), StartError> {
    refuse_errors(check_policies(gate, of_packages, catalog))
}

fn refuse_errors(unknown: Vec<UnknownName>) -> Result<(), StartError> {
    let (errors, warnings): (Vec<_>, Vec<_>) = unknown.into_iter().partition(|unknown| unknown.is_error);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if errors.is_empty() { Ok(()) } else { Err(StartError::Policies(errors)) }
}

/// Reads the keys of the authorization server, if one is configured, and checks the policy of its principals.
#[cfg(feature = "mcp")]
pub(super) fn load_oauth(
    settings: &super::settings::McpSettings,
    catalog: &Catalog,
) -> Result<Option<crate::mcp::server::Oauth>, StartError> {
    let Some(settings) = settings.oauth.clone() else { return Ok(None) };
    let oauth = crate::mcp::server::Oauth::load(settings).map_err(StartError::Oauth)?;
    refuse_errors(PolicyNames::of(catalog).check("mcp.oauth.policy.", oauth.policy()))?;
    Ok(Some(oauth))
}

//! The bindings that a client declares, checked one by one; nothing is half-registered.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binding::schema::{SchemaBudget, SchemaSource, SchemaWarning, WARNINGS_LISTED_MAX};
use crate::binding::{DeclaredSchemas, Principal};
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::ClientBinding;
use crate::scomp::declaration::Declaration;
use crate::scomp::names::{NameSet, is_server_called};

/// Bindings that one client may declare.
/// Each has two compiled schemas; a thousand is far more than a harness has tools.
const CLIENT_BINDINGS_MAX: usize = 1_000;

/// What a client declared, checked.
#[derive(Debug, Default)]
pub(crate) struct ClientBindings {
    pub(crate) bindings: Vec<ClientBinding>,
    /// What was accepted although it is probably a mistake, with pointers into the parameters of the handshake.
    pub(crate) warnings: Vec<SchemaWarning>,
}

/// Checks what a client declares beside the names that are taken, the server's. Schemas are charged to `budget`, and the
/// time that they take to compile to the principal, whether they are accepted or not.
pub(crate) fn check_bindings(
    taken: &NameSet,
    principal: &Principal,
    declared: &[Value],
    budget: &SchemaBudget,
) -> Result<ClientBindings, ErrorObject> {
    if declared.is_empty() {
        return Ok(ClientBindings::default());
    }
    let started = Instant::now();
    let checked = check_each(taken, declared, budget);
    principal.account.charge_cpu(started.elapsed(), Instant::now);
    for SchemaWarning { path, message } in checked.iter().flat_map(|checked| &checked.warnings) {
        tracing::warn!(principal = principal.name, "handshake of a client: {path}: {message}");
    }
    checked
}

fn check_each(
    taken: &NameSet,
    declared: &[Value],
    budget: &SchemaBudget,
) -> Result<ClientBindings, ErrorObject> {
    if declared.len() > CLIENT_BINDINGS_MAX {
        return Err(refused("/bindings", &format!("expected at most {CLIENT_BINDINGS_MAX} bindings")));
    }
    let mut names = taken.clone();
    let mut seen_reserved: Vec<&str> = Vec::new();
    let mut checked: Vec<ClientBinding> = Vec::with_capacity(declared.len());
    let mut warnings = Vec::new();
    for (index, value) in declared.iter().enumerate() {
        let at = |path: &str| format!("/bindings/{index}{path}");
        let declaration =
            Declaration::from_peer(value).map_err(|error| refused(&at(&error.path), &error.message))?;
        if is_server_called(&declaration.name) {
            let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
            if seen_reserved.contains(&name) {
                return Err(refused(&at("/name"), &format!("`{name}` is declared twice")));
            }
            seen_reserved.push(name);
        } else {
            names.insert(&declaration.name).map_err(|error| refused(&at("/name"), &error.to_string()))?;
        }
        let schemas = DeclaredSchemas::compile(&declaration, SchemaSource::Client(budget))
            .map_err(|error| refused(&at(&error.path), &error.message))?;
        let more = schemas.warnings().into_iter().take(WARNINGS_LISTED_MAX - warnings.len());
        warnings.extend(more.map(|warning| SchemaWarning { path: at(&warning.path), ..warning }));
        let timeout = declared_timeout(value).map_err(|(path, message)| refused(&at(path), message))?;
        let DeclaredSchemas { input, output, places } = schemas;
        checked.push(ClientBinding { declaration, input, output, places, timeout });
    }
    Ok(ClientBindings { bindings: checked, warnings })
}

/// How long a call may take, if the declaration says so under `limits.timeoutMs`.
fn declared_timeout(declared: &Value) -> Result<Option<Duration>, (&'static str, &'static str)> {
    let limits = match declared.get("limits") {
        None => return Ok(None),
        Some(Value::Object(limits)) => limits,
        Some(_) => return Err(("/limits", "expected object")),
    };
    match limits.get("timeoutMs").map(Value::as_u64) {
        None => Ok(None),
        Some(None | Some(0)) => Err(("/limits/timeoutMs", "expected a positive integer")),
        Some(Some(ms)) => Ok(Some(Duration::from_millis(ms))),
    }
}

fn refused(path: &str, message: &str) -> ErrorObject {
    ErrorObject::new(Kind::InvalidParams, format!("{path}: {message}")).with("path", path)
}

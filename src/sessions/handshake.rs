//! The bindings that a client declares, checked one by one; nothing is half-registered.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binding::Principal;
use crate::catalog::{Catalog, CatalogBuilder, CompiledSchemas};
use crate::observe;
use crate::protocol::declaration::Declaration;
use crate::protocol::names::NameSet;
use crate::quota::QuotaExceeded;
use crate::rpc::{ErrorObject, Kind};
use crate::schema::{SchemaBudget, SchemaSource, SchemaWarning, WARNINGS_LISTED_MAX};

/// Bindings that one client may declare.
/// Each has two compiled schemas; a thousand is far more than a harness has tools.
const CLIENT_BINDINGS_MAX: usize = 1_000;

/// What a client declared, checked.
#[derive(Debug, Default)]
pub(crate) struct ClientBindings {
    pub(crate) catalog: Catalog,
    /// What was accepted although it is probably a mistake, with pointers into the parameters of the handshake.
    pub(crate) warnings: Vec<SchemaWarning>,
}

/// Most steps of the surveys of all schemas of a handshake: two schemas as intricate as they may be, or thousands of
/// ordinary ones. Bytes do not bound them: a few references multiply. Past it: `InvalidParams` with the binding's path.
const HANDSHAKE_SURVEY_STEPS_MAX: u64 = 2_000_000;

/// Longest time that bindings are compiled before the other tasks of the shard run: about a slice of a script.
const COMPILE_SLICE: Duration = Duration::from_millis(5);

/// Checks what a client declares against the names of the server. Schemas are charged to `budget`, and the time to
/// compile them to the principal, whether they are accepted or not: `Busy` if its CPU quota is used up.
pub(crate) async fn check_bindings(
    taken: &NameSet,
    principal: &Principal,
    declared: &[Value],
    budget: &SchemaBudget,
) -> Result<ClientBindings, ErrorObject> {
    if declared.len() > CLIENT_BINDINGS_MAX {
        return Err(refused("/bindings", &format!("expected at most {CLIENT_BINDINGS_MAX} bindings")));
    }
    if declared.iter().any(has_schema) {
        principal.account.check_cpu(Instant::now).map_err(out_of_cpu)?;
    }
    let mut check = BindingCheck { taken, catalog: CatalogBuilder::default(), warnings: Vec::new() };
    let mut slice_used = Duration::ZERO;
    for (index, value) in declared.iter().enumerate() {
        let started = Instant::now();
        let result = check.add(index, value, budget);
        let used = started.elapsed();
        let is_overdrawn = principal.account.charge_cpu(used, Instant::now);
        result?;
        if budget.survey_steps() > HANDSHAKE_SURVEY_STEPS_MAX {
            let message = "the schemas of this handshake refer to each other too often to be checked";
            return Err(refused(&format!("/bindings/{index}"), message));
        }
        // Other connections of the principal may have used the time that was left when this handshake began.
        if is_overdrawn {
            principal.account.check_cpu(Instant::now).map_err(out_of_cpu)?;
        }
        slice_used += used;
        if slice_used >= COMPILE_SLICE {
            slice_used = Duration::ZERO;
            tokio::task::yield_now().await;
        }
    }
    for SchemaWarning { path, message } in &check.warnings {
        tracing::warn!(principal = principal.name, "handshake of a client: {path}: {message}");
    }
    Ok(ClientBindings { catalog: check.catalog.build(), warnings: check.warnings })
}

/// Whether a declaration has something to compile.
fn has_schema(declared: &Value) -> bool {
    ["input", "output"].iter().any(|member| declared.get(member).is_some())
}

fn out_of_cpu(exceeded: QuotaExceeded) -> ErrorObject {
    observe::record_refusal(exceeded.resource.name());
    exceeded.into()
}

/// The declarations of one handshake that were accepted so far.
struct BindingCheck<'a> {
    /// The names of the server.
    taken: &'a NameSet,
    catalog: CatalogBuilder,
    warnings: Vec<SchemaWarning>,
}

impl BindingCheck<'_> {
    fn add(&mut self, index: usize, value: &Value, budget: &SchemaBudget) -> Result<(), ErrorObject> {
        let at = |path: &str| format!("/bindings/{index}{path}");
        let declaration =
            Declaration::from_peer(value).map_err(|error| refused(&at(&error.path), &error.message))?;
        self.catalog
            .reserve_name(&declaration.name, self.taken)
            .map_err(|error| refused(&at("/name"), &error.to_string()))?;
        let schemas = CompiledSchemas::compile(&declaration, SchemaSource::Client(budget))
            .map_err(|error| refused(&at(&error.path), &error.message))?;
        let more = schemas.warnings().into_iter().take(WARNINGS_LISTED_MAX - self.warnings.len());
        self.warnings.extend(more.map(|warning| SchemaWarning { path: at(&warning.path), ..warning }));
        let timeout = declared_timeout(value).map_err(|(path, message)| refused(&at(path), message))?;
        self.catalog.push(schemas.into_entry(declaration, timeout));
        Ok(())
    }
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

//! The bindings that a client declares, checked one by one; nothing is half-registered.

use std::time::Duration;

use serde_json::Value;

use crate::binding::FunctionPlace;
use crate::binding::schema::Schema;
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::ClientBinding;
use crate::scomp::declaration::Declaration;
use crate::scomp::names::{NameSet, is_server_called};

/// Bindings that one client may declare.
/// Each has two compiled schemas; a thousand is far more than a harness has tools.
const CLIENT_BINDINGS_MAX: usize = 1_000;

/// Checks what a client declares beside the names that are taken, the server's.
pub(crate) fn check_bindings(taken: &NameSet, declared: &[Value]) -> Result<Vec<ClientBinding>, ErrorObject> {
    if declared.is_empty() {
        return Ok(Vec::new());
    }
    if declared.len() > CLIENT_BINDINGS_MAX {
        return Err(refused("/bindings", &format!("expected at most {CLIENT_BINDINGS_MAX} bindings")));
    }
    let mut names = taken.clone();
    let mut seen_reserved: Vec<&str> = Vec::new();
    let mut checked: Vec<ClientBinding> = Vec::with_capacity(declared.len());
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
        let compile = |schema: &Option<Value>, place: &str| {
            let compiled = schema.as_ref().map(Schema::compile).transpose();
            compiled.map_err(|error| refused(&at(&format!("/{place}{}", error.path)), &error.message))
        };
        let input = compile(&declaration.input, "input")?;
        let output = compile(&declaration.output, "output")?;
        let places = FunctionPlace::all_in(declaration.input.as_ref())
            .map_err(|error| refused(&at(&format!("/input{}", error.path)), &error.message))?;
        let timeout = declared_timeout(value).map_err(|(path, message)| refused(&at(path), message))?;
        checked.push(ClientBinding { declaration, input, output, places, timeout });
    }
    Ok(checked)
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

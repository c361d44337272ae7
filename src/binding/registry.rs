//! The set of bindings that a server offers.
//!
//! Built once, at start, with every problem listed; afterwards it only answers questions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::Handler;
use crate::protocol::declaration::Declaration;
use crate::protocol::names::NameSet;
use crate::schema::FunctionParam;
use crate::schema::prefixed;
use crate::schema::{Schema, SchemaError, SchemaSource, SchemaWarning};

/// The limits of one binding; what is absent is the server's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct BindingLimits {
    /// How long a call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How many calls may run at once, over all sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
}

/// How many calls of one binding run at once unless its declaration says otherwise.
/// A handler holds a connection or a thread at most; a thousand of them fit, and one script cannot take them all.
const CONCURRENCY_DEFAULT: usize = 1024;

/// A binding ready to be called.
pub struct Binding {
    /// What the client is told of it.
    pub declaration: Declaration,
    /// Checks what goes in.
    pub input: Option<Schema>,
    /// Checks what comes out.
    pub output: Option<Schema>,
    /// Where typed functions stand in the input.
    pub function_params: Vec<FunctionParam>,
    /// Does the work.
    pub handler: Arc<dyn Handler>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// How many calls may run at once.
    pub slots: Arc<Semaphore>,
    /// Where it comes from, for the operator.
    pub origin: String,
}

impl std::fmt::Debug for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Binding").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}

/// Something wrong with a declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {path}: {message}")]
pub struct RegistryProblem {
    /// The file, or the place in code.
    pub origin: String,
    /// JSON Pointer into it.
    pub path: String,
    /// What is wrong and what was expected.
    pub message: String,
}

/// The bindings of a server.
#[derive(Debug, Default)]
pub struct Registry {
    order: Vec<Arc<Binding>>,
    by_name: HashMap<String, usize>,
    names: NameSet,
}

impl Registry {
    /// Adds a binding of the operator's, or says what is wrong with its declaration; `path` is where it stands in
    /// `origin`.
    pub fn add(
        &mut self,
        declaration: Declaration,
        limits: &BindingLimits,
        handler: Arc<dyn Handler>,
        origin: &str,
        path: &str,
    ) -> Result<(), RegistryProblem> {
        self.add_from(SchemaSource::Operator, declaration, limits, handler, (origin, path))
    }

    /// The same for schemas from elsewhere.
    pub(crate) fn add_from(
        &mut self,
        source: SchemaSource<'_>,
        declaration: Declaration,
        limits: &BindingLimits,
        handler: Arc<dyn Handler>,
        (origin, path): (&str, &str),
    ) -> Result<(), RegistryProblem> {
        let problem = |place: String, message: String| RegistryProblem {
            origin: origin.to_owned(),
            path: format!("{path}{place}"),
            message,
        };
        if is_control_name(&declaration.name) {
            let message = format!("`{}` is reserved: the server's own bindings begin so", declaration.name);
            return Err(problem("/name".to_owned(), message));
        }
        let schemas = DeclaredSchemas::compile(&declaration, source)
            .map_err(|error| problem(error.path, error.message))?;
        for SchemaWarning { path: place, message } in schemas.warnings() {
            tracing::warn!("{origin}: {path}{place}: {message}");
        }
        let DeclaredSchemas { input, output, function_params } = schemas;
        self.names
            .insert(&declaration.name)
            .map_err(|error| problem("/name".to_owned(), error.to_string()))?;
        self.by_name.insert(declaration.name.clone(), self.order.len());
        self.order.push(Arc::new(Binding {
            input,
            output,
            function_params,
            handler,
            timeout: limits.timeout_ms.map(Duration::from_millis),
            slots: Arc::new(Semaphore::new(limits.concurrency.unwrap_or(CONCURRENCY_DEFAULT))),
            origin: origin.to_owned(),
            declaration,
        }));
        Ok(())
    }

    /// Takes over the bindings of another registry; those whose names are taken are problems.
    pub fn merge(&mut self, other: Self) -> Vec<RegistryProblem> {
        let mut problems = Vec::new();
        for binding in other.order {
            let name = binding.declaration.name.clone();
            match self.names.insert(&name) {
                Ok(()) => {
                    self.by_name.insert(name, self.order.len());
                    self.order.push(binding);
                }
                Err(error) => problems.push(RegistryProblem {
                    origin: binding.origin.clone(),
                    path: String::new(),
                    message: error.to_string(),
                }),
            }
        }
        problems
    }

    /// The binding of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Binding>> {
        self.by_name.get(name).map(|index| &self.order[*index])
    }

    /// The number of a binding, which stays its own.
    pub(crate) fn number_of(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).and_then(|index| u32::try_from(*index).ok())
    }

    /// The binding of that number.
    pub(crate) fn at(&self, number: u32) -> Option<&Arc<Binding>> {
        self.order.get(number as usize)
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.order.iter()
    }

    /// All names taken, for those who want to add theirs beside them.
    pub fn names(&self) -> &NameSet {
        &self.names
    }
}

/// The schemas of a declaration, compiled.
#[derive(Debug)]
pub(crate) struct DeclaredSchemas {
    pub(crate) input: Option<Schema>,
    pub(crate) output: Option<Schema>,
    pub(crate) function_params: Vec<FunctionParam>,
}

impl DeclaredSchemas {
    /// Compiles them, or says which one is refused, with a pointer into the declaration.
    pub(crate) fn compile(declaration: &Declaration, source: SchemaSource<'_>) -> Result<Self, SchemaError> {
        let inside = |place: &str, error: SchemaError| SchemaError {
            path: format!("/{place}{}", error.path),
            message: error.message,
        };
        let compile = |schema: &Option<serde_json::Value>, place: &str| {
            let compiled = schema.as_ref().map(|schema| Schema::compile(schema, source)).transpose();
            compiled.map_err(|error| inside(place, error))
        };
        let input = compile(&declaration.input, "input")?;
        let output = compile(&declaration.output, "output")?;
        let function_params = FunctionParam::all_in(declaration.input.as_ref(), source)
            .map_err(|error| inside("input", error))?;
        Ok(Self { input, output, function_params })
    }

    /// What was accepted although it is probably a mistake, with pointers into the declaration.
    pub(crate) fn warnings(&self) -> Vec<SchemaWarning> {
        let of = |schema: &Option<Schema>, place: &str| {
            schema.as_ref().map(|schema| prefixed(place, schema.warnings())).unwrap_or_default()
        };
        let of_params = self.function_params.iter().flat_map(|place| prefixed("/input", &place.warnings()));
        let (input, output) = (of(&self.input, "/input"), of(&self.output, "/output"));
        input.into_iter().chain(of_params).chain(output).collect()
    }
}

/// Whether a name is one of the server's own bindings (`session.cancel`, `bindings.types`), now or later.
pub(crate) fn is_control_name(name: &str) -> bool {
    matches!(name.split('.').next(), Some("session" | "bindings"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::handler;

    fn with(name: &str) -> Result<Registry, RegistryProblem> {
        let mut registry = Registry::default();
        let nothing = handler(|_, _| async { Ok(serde_json::Value::Null) });
        registry.add(
            Declaration::named(name),
            &BindingLimits::default(),
            nothing,
            "a.json",
            "/bindings/0",
        )?;
        Ok(registry)
    }

    #[test]
    fn names_of_the_servers_own_bindings_are_reserved() {
        for name in ["session.more", "session", "bindings.types"] {
            assert_eq!(with(name).unwrap_err().path, "/bindings/0/name", "{name}");
        }
        assert!(with("sessions.list").is_ok());
    }

    #[test]
    fn of_two_registries_with_one_name_the_second_is_the_problem() {
        let mut registry = with("a").unwrap();
        assert!(registry.merge(with("b").unwrap()).is_empty());
        let problems = registry.merge(with("a.b").unwrap());
        assert_eq!(problems.len(), 1);
        let names: Vec<_> = registry.iter().map(|binding| binding.declaration.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}

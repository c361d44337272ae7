//! One binding of a catalog: its declaration with everything that is compiled from it.

use std::time::Duration;

use serde_json::Value;

use crate::protocol::declaration::Declaration;
use crate::schema::{FunctionParam, Schema, SchemaError, SchemaSource, SchemaWarning, prefixed};

/// A binding as a session knows it: what it is called, what it takes and returns. It holds no handler.
#[derive(Debug)]
pub struct CatalogEntry {
    /// As a handshake lists it.
    pub declaration: Declaration,
    /// The compiled schema of the input; absent where any input is accepted.
    pub input: Option<Schema>,
    /// The compiled schema of the output; absent where any output is accepted.
    pub output: Option<Schema>,
    /// Where typed functions stand in the input.
    pub params: Vec<FunctionParam>,
    /// How long a call may take, if the declaration limits it.
    pub timeout: Option<Duration>,
}

impl CatalogEntry {
    /// An entry about which nothing but its name is known.
    pub(crate) fn named(name: &str) -> Self {
        let declaration = Declaration::named(name);
        Self { declaration, input: None, output: None, params: Vec::new(), timeout: None }
    }

    /// Its name, which is unique in its catalog.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }
}

/// The schemas of a declaration, compiled; the costly step in making a [`CatalogEntry`].
#[derive(Debug)]
pub(crate) struct CompiledSchemas {
    input: Option<Schema>,
    output: Option<Schema>,
    params: Vec<FunctionParam>,
}

impl CompiledSchemas {
    /// Compiles the schemas of a declaration. The error points into the declaration.
    pub(crate) fn compile(declaration: &Declaration, source: SchemaSource<'_>) -> Result<Self, SchemaError> {
        let inside = |field: &str, error: SchemaError| SchemaError {
            path: format!("/{field}{}", error.path),
            message: error.message,
        };
        let compile = |schema: &Option<Value>, field: &str| {
            let compiled = schema.as_ref().map(|schema| Schema::compile(schema, source)).transpose();
            compiled.map_err(|error| inside(field, error))
        };
        let input = compile(&declaration.input, "input")?;
        let output = compile(&declaration.output, "output")?;
        let params = FunctionParam::all_in(declaration.input.as_ref(), source)
            .map_err(|error| inside("input", error))?;
        Ok(Self { input, output, params })
    }

    /// What was accepted although it is probably a mistake, with pointers into the declaration.
    pub(crate) fn warnings(&self) -> Vec<SchemaWarning> {
        let of = |schema: &Option<Schema>, field: &str| {
            schema.as_ref().map(|schema| prefixed(field, schema.warnings())).unwrap_or_default()
        };
        let of_params = self.params.iter().flat_map(|param| prefixed("/input", &param.warnings()));
        let (input, output) = (of(&self.input, "/input"), of(&self.output, "/output"));
        input.into_iter().chain(of_params).chain(output).collect()
    }

    /// The entry of the declaration that these schemas were compiled from.
    pub(crate) fn into_entry(self, declaration: Declaration, timeout: Option<Duration>) -> CatalogEntry {
        let Self { input, output, params } = self;
        CatalogEntry { declaration, input, output, params, timeout }
    }
}

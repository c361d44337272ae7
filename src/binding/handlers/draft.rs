//! The set of a package while it is put together: what is kept of the set before, what is compiled, what is refused.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{HandlerEntry, PackageId, PackageRecord, Writer};
use crate::binding::definition::is_control_name;
use crate::binding::slots::CallSlots;
use crate::binding::{Binding, BindingLimits, DeclarationProblem};
use crate::catalog::{CatalogEntry, CompiledSchemas};
use crate::protocol::declaration::Declaration;
use crate::protocol::names::NameSet;
use crate::schema::SchemaWarning;

/// How many calls of one binding run concurrently unless its declaration says otherwise.
/// A handler holds a connection or a thread at most; a thousand of them fit, and one script cannot take them all.
const CONCURRENCY_DEFAULT: usize = 1024;

/// Most numbers of one server. Scripts pass them as integers of 32 bits. Past it: further bindings are refused.
const NUMBERS_MAX: u32 = i32::MAX as u32;

/// See the module.
pub(super) struct Draft<'a> {
    writer: &'a mut Writer,
    package: PackageId,
    /// What the package offered before, by name.
    before: HashMap<String, Arc<HandlerEntry>>,
    /// All names taken: those of other packages, and those of the set so far.
    pub(super) names: NameSet,
}

impl<'a> Draft<'a> {
    /// An empty set of a package that offered `before`, beside the names of the others.
    pub(super) fn new(
        writer: &'a mut Writer,
        package: PackageId,
        before: Vec<Arc<HandlerEntry>>,
        names: NameSet,
    ) -> Self {
        let by_name = before.into_iter().map(|handler| (handler.entry.name().to_owned(), handler));
        Self { writer, package, before: by_name.collect(), names }
    }

    /// A problem at this place of the package's declarations.
    pub(super) fn problem(&self, path: String, message: String) -> DeclarationProblem {
        DeclarationProblem { origin: self.record().origin.to_string(), path, message }
    }

    fn record(&self) -> &PackageRecord {
        &self.writer.packages[self.package.0]
    }

    /// Adds a binding. One that did not change keeps its compiled schemas and slots; a changed one keeps its number.
    pub(super) fn bind(
        &mut self,
        binding: Binding,
        path: &str,
    ) -> Result<Arc<HandlerEntry>, DeclarationProblem> {
        let Binding { declaration, limits, handler } = binding;
        let at_name = || format!("{path}/name");
        if is_control_name(&declaration.name) {
            let message = format!("`{}` is reserved for control bindings of the server", declaration.name);
            return Err(self.problem(at_name(), message));
        }
        let before = self.before.get(&declaration.name).cloned();
        let is_same =
            |before: &HandlerEntry| before.entry.declaration == declaration && before.limits == limits;
        let (entry, slots) = match &before {
            Some(before) if is_same(before) => (Arc::clone(&before.entry), Arc::clone(&before.slots)),
            Some(_) | None => (
                self.compile(declaration, &limits, path)?,
                CallSlots::new(limits.concurrency.unwrap_or(CONCURRENCY_DEFAULT)),
            ),
        };
        self.names.insert(entry.name()).map_err(|error| self.problem(at_name(), error.to_string()))?;
        let number = before.map_or_else(|| self.next_number(), |before| Some(before.number));
        let Some(number) = number else {
            let message = format!("expected at most {NUMBERS_MAX} bindings since the start of the server");
            return Err(self.problem(at_name(), message));
        };
        let (origin, package) = (Arc::clone(&self.record().origin), self.package);
        let timeout = entry.timeout;
        let meter = Arc::default();
        Ok(Arc::new(HandlerEntry { entry, timeout, origin, handler, slots, meter, number, limits, package }))
    }

    fn compile(
        &self,
        declaration: Declaration,
        limits: &BindingLimits,
        path: &str,
    ) -> Result<Arc<CatalogEntry>, DeclarationProblem> {
        let PackageRecord { origin, source, .. } = self.record();
        let schemas = CompiledSchemas::compile(&declaration, *source)
            .map_err(|error| self.problem(format!("{path}{}", error.path), error.message))?;
        for SchemaWarning { path: place, message } in schemas.warnings() {
            tracing::warn!("{origin}: {path}{place}: {message}");
        }
        Ok(Arc::new(schemas.into_entry(declaration, limits.timeout_ms.map(Duration::from_millis))))
    }

    fn next_number(&mut self) -> Option<u32> {
        let number = self.writer.next_number;
        self.writer.next_number = number.checked_add(1).filter(|next| *next <= NUMBERS_MAX)?;
        Some(number)
    }
}

//! The guest's prelude: the JavaScript that every session starts with, loaded from bytecode.
//!
//! The core is what every session needs; its files share one function scope, in this order. A unit is loaded when a
//! script first needs it. Each is compiled once, at its first use in the process; every context then loads the
//! bytecode, which is several times cheaper than the source. Bytecode never comes from anywhere else.
//!
//! One of the modules with `unsafe`: QuickJS trusts the bytecode that it reads.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use rquickjs::{Context, Ctx, Exception, Function, Object, Runtime, Value};

use super::host::{self, Call};
use super::script::{Code, CompileError, Script};

/// A part that is compiled on its own: its name, its parameter, its files, its bytecode.
struct Part {
    name: &'static str,
    files: &'static [&'static str],
    bytecode: OnceLock<Result<Vec<u8>, String>>,
}

macro_rules! part {
    ($name:literal: $($file:literal),*) => {
        Part {
            name: $name,
            files: &[$(include_str!(concat!("../../js/prelude/", $file, ".js"))),*],
            bytecode: OnceLock::new(),
        }
    };
}

static CORE: Part = part!("core": "primordials", "console", "timers", "platform", "units", "bindings", "discover", "guards", "error_stack");

static UNITS: [Part; 10] = [
    part!("helpers": "helpers"),
    part!("inspect": "inspect_layout", "inspect_describe", "inspect_kinds", "inspect_errors", "inspect", "format", "console_table"),
    part!("encoding": "encoding"),
    part!("url": "url_search_params", "url"),
    part!("events": "events", "abort"),
    part!("clone": "clone"),
    part!("discover": "discover_unit"),
    part!("values": "values", "errors"),
    part!("walks": "walks"),
    part!("diagnosis": "diagnosis"),
];

/// The sources of all parts: a heap holds functions of them.
pub(crate) fn sources() -> impl Iterator<Item = &'static str> {
    std::iter::once(&CORE).chain(&UNITS).flat_map(|part| part.files.iter().copied())
}

/// Installs the core into a fresh context; returns the functions that the engine calls.
pub(crate) fn install<'js>(ctx: &Ctx<'js>, host: Object<'js>) -> rquickjs::Result<Object<'js>> {
    CORE.load(ctx)?.call((host,))
}

/// `host.loadUnit(name)`: the function of a unit. Adds the host functions that the unit calls.
pub(crate) fn load_unit<'js>(call: &Call<'_, 'js>) -> rquickjs::Result<Value<'js>> {
    let name: String = call.argument(0)?;
    match UNITS.iter().find(|unit| unit.name == name) {
        Some(unit) => {
            host::install(&call.this()?, call.class(), unit.name)?;
            Ok(unit.load(call.ctx())?.into_value())
        }
        None => Err(Exception::throw_internal(call.ctx(), "unknown prelude unit")),
    }
}

impl Part {
    fn load<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Function<'js>> {
        let bytecode = self.bytecode.get_or_init(|| self.compile().map_err(|error| error.to_string()));
        let bytecode = bytecode.as_ref().map_err(|why| Exception::throw_internal(ctx, why))?;
        // SAFETY: these bytes were written by `compile` in this very process, by this very QuickJS, and live as long.
        let script = unsafe { Script::from_bytecode(ctx, bytecode) }?;
        script.run(ctx)?.get()
    }

    /// An expression that is the function: a script leaves nothing else behind in a context.
    fn compile(&self) -> Result<Vec<u8>, CompileError> {
        let body = self.files.join("\n");
        let source = if self.name == CORE.name {
            format!("(function (host) {{ \"use strict\";\n{body}\nreturn exports; }})")
        } else {
            format!(
                "(function (core) {{ \"use strict\"; const exports = {{ __proto__: null }};\n{body}\nreturn exports; }})"
            )
        };
        let context = Context::full(&Runtime::new()?)?;
        context.with(|ctx| {
            let code = Code { text: &source, name: self.name, awaits: false };
            let script = Script::compile(&ctx, &code).inspect_err(|_| {
                tracing::error!(part = self.name, thrown = ?ctx.catch(), "the prelude does not compile");
            })?;
            Ok(script.to_bytecode(&ctx)?)
        })
    }
}

//! The guest's prelude: the JavaScript that every session starts with, loaded from bytecode.
//!
//! The files of `js/prelude` share one function scope, in this order. They are compiled once, when the first
//! session starts; every context then loads the bytecode, which is about ten times cheaper than the source.
//! Bytecode never comes from anywhere else.
//!
//! One of the three modules with `unsafe`: QuickJS trusts the bytecode that it reads.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use rquickjs::{Context, Ctx, Function, Module, Object, Runtime, WriteOptions};

const FILES: [&str; 12] = [
    include_str!("../../js/prelude/primordials.js"),
    include_str!("../../js/prelude/inspect.js"),
    include_str!("../../js/prelude/console.js"),
    include_str!("../../js/prelude/timers.js"),
    include_str!("../../js/prelude/events.js"),
    include_str!("../../js/prelude/encoding.js"),
    include_str!("../../js/prelude/url.js"),
    include_str!("../../js/prelude/clone.js"),
    include_str!("../../js/prelude/misc.js"),
    include_str!("../../js/prelude/values.js"),
    include_str!("../../js/prelude/errors.js"),
    include_str!("../../js/prelude/bindings.js"),
];

/// Installs the prelude into a fresh context; gives the functions that the engine calls.
pub(crate) fn install<'js>(ctx: &Ctx<'js>, host: Object<'js>) -> rquickjs::Result<Object<'js>> {
    static BYTECODE: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let bytecode = BYTECODE.get_or_init(|| compile().map_err(|error| error.to_string()));
    let bytecode = bytecode.as_ref().map_err(|_| rquickjs::Error::Unknown)?;
    // SAFETY: these bytes were written by `compile` in this very process, by this very QuickJS, and live as long.
    let module = unsafe { Module::load(ctx.clone(), bytecode) }?;
    let (module, evaluated) = module.eval()?;
    evaluated.finish::<()>()?;
    let prelude: Function<'js> = module.get("default")?;
    prelude.call((host,))
}

fn compile() -> rquickjs::Result<Vec<u8>> {
    let body = FILES.join("\n");
    let source = format!("export default function (host) {{ \"use strict\";\n{body}\nreturn exports; }}");
    let context = Context::full(&Runtime::new()?)?;
    context.with(|ctx| {
        let module = Module::declare(ctx.clone(), "prelude", source).inspect_err(|_| {
            tracing::error!(thrown = ?ctx.catch(), "the prelude does not compile");
        })?;
        module.write(WriteOptions { strip_debug: true, ..WriteOptions::default() })
    })
}

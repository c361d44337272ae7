//! From the code of an eval to a compiled script.
//!
//! What QuickJS refuses may be TypeScript, so a refusal must be distinguished from a lack of memory or stack. It is recognised by the
//! prototype of the error, which the prelude keeps aside: an earlier eval may have changed everything that can be read from it.

use rquickjs::Ctx;

use super::super::script::{Code, CompileError, Script};
use super::super::source::{self, PreparedCode};
use super::super::thrown::{self, SourceMap};
use super::Engine;
use crate::rpc::{ErrorObject, Kind};
use crate::session::Positions;
use crate::session::tables::EvalSource;

/// An eval's code as the engine took it.
pub(super) struct Compiled<'js> {
    pub(super) script: Script<'js>,
    pub(super) positions: Positions,
    /// Whether it gives a promise of `{value}` instead of its value.
    pub(super) awaits: bool,
}

/// Why an eval's code was not compiled.
enum Refusal {
    /// It is not JavaScript.
    Syntax(ErrorObject),
    /// There was no memory or no stack for it.
    Failure(ErrorObject),
}

impl Refusal {
    fn into_error(self) -> ErrorObject {
        match self {
            Self::Syntax(error) | Self::Failure(error) => error,
        }
    }
}

impl Engine {
    /// Compiles an eval's code; what QuickJS refuses may be TypeScript.
    pub(super) fn compile<'js>(
        &self,
        ctx: &Ctx<'js>,
        prepared: PreparedCode<'_>,
        source: &EvalSource,
        options: &source::Options<'_>,
    ) -> Result<Compiled<'js>, ErrorObject> {
        let refused = match self.try_compile(ctx, prepared, &source.name) {
            Ok(compiled) => return Ok(compiled),
            Err(Refusal::Failure(error)) => return Err(error),
            Err(Refusal::Syntax(error)) => error,
        };
        match source::rescue(&source.code, options) {
            Ok(Some(prepared)) => self.try_compile(ctx, prepared, &source.name).map_err(Refusal::into_error),
            Ok(None) => match source::explain(&source.code) {
                Some(error) => Err(syntax_error(&error, &source.name)),
                None => Err(refused),
            },
            Err(error) => Err(syntax_error(&error, &source.name)),
        }
    }

    fn try_compile<'js>(
        &self,
        ctx: &Ctx<'js>,
        prepared: PreparedCode<'_>,
        name: &str,
    ) -> Result<Compiled<'js>, Refusal> {
        let PreparedCode { code, positions } = prepared;
        // A word in a string or a comment costs only the promise.
        let awaits = code.contains("await");
        match self.compile_untouched(ctx, &Code { text: &code, name, awaits }) {
            Ok(script) => Ok(Compiled { script, positions, awaits }),
            Err(CompileError::Nul(_)) => {
                let message = "SyntaxError: the code contains a NUL character";
                Err(Refusal::Syntax(ErrorObject::new(Kind::SyntaxError, message)))
            }
            Err(CompileError::Thrown(error)) => {
                Err(self.refusal(ctx, error, &SourceMap { name, positions: &positions }))
            }
        }
    }

    /// Compiles so that no script has seen the error, which it could have changed: QuickJS calls the script's
    /// `prepareStackTrace` for it. Without one, which is the rule, nothing is compiled twice.
    fn compile_untouched<'js>(&self, ctx: &Ctx<'js>, code: &Code<'_>) -> Result<Script<'js>, CompileError> {
        let compiled = Script::compile(ctx, code);
        if !matches!(&compiled, Err(CompileError::Thrown(error)) if error.is_exception()) {
            return compiled;
        }
        let thrown = ctx.catch();
        if !self.pause_prepare_stack_trace(ctx, true) {
            return Err(CompileError::Thrown(ctx.throw(thrown)));
        }
        let compiled = Script::compile(ctx, code);
        let thrown = ctx.catch();
        self.pause_prepare_stack_trace(ctx, false);
        compiled.map_err(|error| match error {
            CompileError::Thrown(_) => CompileError::Thrown(ctx.throw(thrown)),
            nul @ CompileError::Nul(_) => nul,
        })
    }

    /// Returns whether the script has one.
    fn pause_prepare_stack_trace(&self, ctx: &Ctx<'_>, is_paused: bool) -> bool {
        let paused = self.kit(ctx, "pausePrepareStackTrace").and_then(|pause| pause.call((is_paused,)));
        let has_one = *paused.as_ref().unwrap_or(&false);
        self.ignore(ctx, paused);
        has_one
    }

    /// Tells code that is wrong from a context that has no room to compile it.
    fn refusal(&self, ctx: &Ctx<'_>, error: rquickjs::Error, map: &SourceMap<'_>) -> Refusal {
        if !error.is_exception() {
            return Refusal::Failure(self.failure(ctx, error, map));
        }
        let thrown = ctx.catch();
        match thrown::describe_syntax_error(ctx, &self.guest, &thrown, map) {
            Some(error) => Refusal::Syntax(error),
            None => Refusal::Failure(self.describe_thrown(ctx, thrown, map)),
        }
    }
}

pub(super) fn syntax_error(error: &source::SourceError, name: &str) -> ErrorObject {
    ErrorObject::new(Kind::SyntaxError, format!("SyntaxError: {}", error.message))
        .with("stack", format!("    at {name}:{}:{}", error.line, error.column))
}

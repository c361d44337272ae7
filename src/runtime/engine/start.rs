//! How JavaScript begins to run for somebody: the code of an eval, or a call into a function.

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Function, Persistent, Promise, Value as JsValue};
use serde_json::Value;

use super::super::guest::{Holder, Origin, Owner};
use super::super::source::{self, Positions, Prepared};
use super::super::thrown::SourceMap;
use super::{Engine, Source, Watched};
use crate::rpc::{ErrorObject, Kind};

impl Engine {
    /// Starts an eval; its promise is to be watched.
    pub(crate) fn start_eval(
        &self,
        ctx: &Ctx<'_>,
        owner: Owner,
        source: &Source,
    ) -> Result<Watched, ErrorObject> {
        let watched = |promise, positions| Watched {
            owner,
            promise: Persistent::save(ctx, promise),
            name: source.name.clone(),
            positions,
            holder: Holder::Client,
        };
        let dropped = self.kit(ctx, "dropShadows").and_then(|drop| drop.call::<_, ()>(()));
        self.ignore(ctx, dropped);
        if let Some(promise) = self.read_data(ctx, &source.code) {
            return Ok(watched(promise, Positions::default()));
        }
        let is_binding = |name: &str| self.is_binding(name);
        let options = source::Options { fresh: source.fresh, is_binding: &is_binding };
        let prepared =
            source::prepare(&source.code, &options).map_err(|error| syntax_error(&error, &source.name))?;
        let (promise, positions) = match self.compile(ctx, &prepared, &source.name) {
            Ok(promise) => (promise, prepared.positions),
            Err(thrown) => self.rescue(ctx, thrown, source, &options, &prepared.positions)?,
        };
        Ok(watched(promise, positions))
    }

    fn compile<'js>(
        &self,
        ctx: &Ctx<'js>,
        prepared: &Prepared<'_>,
        name: &str,
    ) -> Result<Promise<'js>, Option<JsValue<'js>>> {
        let mut options = EvalOptions::default();
        options.global = true;
        options.strict = false;
        options.promise = true;
        options.filename = Some(name.to_owned());
        ctx.eval_with_options(prepared.code.as_bytes(), options)
            .map_err(|error| error.is_exception().then(|| ctx.catch()))
    }

    /// QuickJS did not take the code: perhaps it is TypeScript.
    fn rescue<'js>(
        &self,
        ctx: &Ctx<'js>,
        thrown: Option<JsValue<'js>>,
        source: &Source,
        options: &source::Options<'_>,
        positions: &Positions,
    ) -> Result<(Promise<'js>, Positions), ErrorObject> {
        let Some(thrown) = thrown else {
            return Err(ErrorObject::new(
                Kind::SyntaxError,
                "SyntaxError: the code contains a NUL character",
            ));
        };
        let map = SourceMap { name: &source.name, positions };
        let refused = self.told(ctx, thrown, &map);
        if !refused.message.starts_with("SyntaxError") {
            return Err(refused);
        }
        let prepared = match source::rescue(&source.code, options) {
            Ok(Some(prepared)) => prepared,
            Ok(None) => return Err(as_syntax_error(refused)),
            Err(error) => return Err(syntax_error(&error, &source.name)),
        };
        match self.compile(ctx, &prepared, &source.name) {
            Ok(promise) => Ok((promise, prepared.positions)),
            Err(Some(thrown)) => {
                let map = SourceMap { name: &source.name, positions: &prepared.positions };
                Err(as_syntax_error(self.told(ctx, thrown, &map)))
            }
            Err(None) => Err(as_syntax_error(refused)),
        }
    }

    fn is_binding(&self, name: &str) -> bool {
        let starts = |full: &str| full.split('.').next() == Some(name);
        self.guest.registry.iter().any(|binding| starts(&binding.declaration.name))
            || self.guest.client_bindings.borrow().keys().any(|full| starts(full))
    }

    /// Calls a function of the script; what it returns is to be watched.
    pub(crate) fn start_call(
        &self,
        ctx: &Ctx<'_>,
        owner: Owner,
        function: Persistent<Function<'static>>,
        arguments: &[Value],
        (origin, holder): (Origin, Holder),
    ) -> Result<Watched, ErrorObject> {
        let failed = |_| ErrorObject::new(Kind::Internal, "the function is not of this session");
        let function = function.restore(ctx).map_err(failed)?;
        let mut list = rquickjs::function::Args::new(ctx.clone(), arguments.len());
        for (index, argument) in arguments.iter().enumerate() {
            let argument = self.guest.decode(ctx, argument, origin).map_err(|error| {
                ErrorObject::new(Kind::InvalidParams, error.message)
                    .with("path", format!("/{index}{}", error.path))
            })?;
            list.push_arg(argument).map_err(failed)?;
        }
        let positions = Positions::default();
        let name = String::new();
        match function.call_arg::<JsValue<'_>>(list).and_then(|value| self.wrap(ctx, value)) {
            Ok(promise) => {
                Ok(Watched { owner, promise: Persistent::save(ctx, promise), name, positions, holder })
            }
            Err(error) => Err(self.failure(ctx, error, &SourceMap { name: &name, positions: &positions })),
        }
    }
}

fn syntax_error(error: &source::SourceError, name: &str) -> ErrorObject {
    ErrorObject::new(Kind::SyntaxError, format!("SyntaxError: {}", error.message))
        .with("stack", format!("    at {name}:{}:{}", error.line, error.column))
}

fn as_syntax_error(error: ErrorObject) -> ErrorObject {
    error.with("kind", Kind::SyntaxError.name())
}

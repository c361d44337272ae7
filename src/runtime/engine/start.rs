//! How JavaScript begins to run: the code of an eval, or a call of one of the script's functions.

use rquickjs::atom::PredefinedAtom;
use rquickjs::{Ctx, Function, Object, Value as JsValue};
use serde_json::Value;

use super::super::source;
use super::super::thrown::SourceMap;
use super::super::value::{self, DecodeError};
use super::Engine;
use super::compile::{Compiled, syntax_error};
use crate::protocol::methods::RawPayload;
use crate::rpc::{ErrorObject, Kind};
use crate::session::tables::EvalSource;
use crate::session::{
    Arguments, AwaitedPromise, ChargedTo, Positions, RefHolder, RootId, Settled, ValueSource,
};

/// What began to run.
pub(crate) enum Started {
    /// It gives a promise, which is to be watched.
    Waiting(AwaitedPromise),
    /// It is over already.
    Over(Settled),
}

impl Engine {
    /// Starts an eval.
    pub(crate) fn start_eval(
        &self,
        ctx: &Ctx<'_>,
        charged_to: ChargedTo,
        source: &EvalSource,
    ) -> Result<Started, ErrorObject> {
        self.drop_shadows(ctx);
        if let Some(value) = self.read_data(ctx, &source.code) {
            return Ok(Started::Over(self.settled(ctx, charged_to, &value, RefHolder::Client)));
        }
        let is_binding = |name: &str| self.is_binding(name);
        let options = source::Options { fresh: source.fresh, is_binding: &is_binding };
        let prepared =
            source::prepare(&source.code, &options).map_err(|error| syntax_error(&error, &source.name))?;
        let Compiled { script, positions, awaits } = self.compile(ctx, prepared, source, &options)?;
        self.guest.machine_mut().state.source_maps.keep(&source.name, &positions);
        let map = SourceMap { name: &source.name, positions: &positions };
        let cleaned = self.clean_prototype(ctx);
        self.ignore(ctx, cleaned);
        let value = script.run(ctx).map_err(|error| self.failure(ctx, error, &map))?;
        let mut is_unwrapped = false;
        let promise = if awaits {
            let promise = value
                .try_into_promise()
                .map_err(|_| ErrorObject::new(Kind::Internal, "an eval without promise"))?;
            self.hold(ctx, promise)?
        } else if value.is_promise() {
            let promise = self.wrap(ctx, value).map_err(|error| self.failure(ctx, error, &map))?;
            self.hold(ctx, promise)?
        } else {
            let settled = self.settled(ctx, charged_to, &value, RefHolder::Client);
            match self.promises_inside(ctx, &value, &settled, false) {
                None => return Ok(Started::Over(settled)),
                Some(promise) => {
                    is_unwrapped = true;
                    promise
                }
            }
        };
        Ok(Started::Waiting(AwaitedPromise {
            charged_to,
            promise,
            name: source.name.clone(),
            positions,
            holder: RefHolder::Client,
            is_unwrapped,
        }))
    }

    /// What a script put in the place of a binding stays there until the next eval begins.
    fn drop_shadows(&self, ctx: &Ctx<'_>) {
        if !self.guest.machine().state.has_shadows {
            return;
        }
        let kept = self.kit(ctx, "dropShadows").and_then(|drop| drop.call::<_, bool>(()));
        self.guest.machine_mut().state.has_shadows = *kept.as_ref().unwrap_or(&true);
        self.ignore(ctx, kept);
    }

    /// A promise looks for `then` in what it is resolved with, and QuickJS hands a value over as `{value}`: what a script
    /// left under these names where every object inherits it ends when the next eval begins.
    fn clean_prototype(&self, ctx: &Ctx<'_>) -> rquickjs::Result<()> {
        let anything = Object::new(ctx.clone())?;
        if value::has(&anything, PredefinedAtom::Then)? || value::has(&anything, PredefinedAtom::Value)? {
            self.kit(ctx, "cleanObjectPrototype")?.call::<_, ()>(())?;
        }
        Ok(())
    }

    fn is_binding(&self, name: &str) -> bool {
        self.guest.machine().is_binding(name)
    }

    /// Calls a function of the script; what it returns is to be watched.
    pub(crate) fn start_call(
        &self,
        ctx: &Ctx<'_>,
        charged_to: ChargedTo,
        function: RootId,
        arguments: &Arguments,
        (source, holder): (ValueSource, RefHolder),
    ) -> Result<Started, ErrorObject> {
        let failed = |_| ErrorObject::new(Kind::Internal, "the function is not of this session");
        let function: Function<'_> = self.guest.roots.get(ctx, function).map_err(failed)?;
        let decoded = self
            .decode_arguments(ctx, arguments, source)
            .map_err(|error| error.into_object(Kind::InvalidParams))?;
        let mut list = rquickjs::function::Args::new(ctx.clone(), decoded.len());
        for argument in decoded {
            list.push_arg(argument).map_err(failed)?;
        }
        let positions = Positions::default();
        let name = String::new();
        match function.call_arg::<JsValue<'_>>(list).and_then(|value| self.wrap(ctx, value)) {
            Ok(promise) => {
                let promise = self.hold(ctx, promise)?;
                let is_unwrapped = false;
                Ok(Started::Waiting(AwaitedPromise {
                    charged_to,
                    promise,
                    name,
                    positions,
                    holder,
                    is_unwrapped,
                }))
            }
            Err(error) => Err(self.failure(ctx, error, &SourceMap { name: &name, positions: &positions })),
        }
    }
}

impl Engine {
    /// Builds the arguments of a call. The path of an error counts from the parameters of the client's `invoke`, or from
    /// the list of a handler's arguments.
    fn decode_arguments<'js>(
        &self,
        ctx: &Ctx<'js>,
        arguments: &Arguments,
        source: ValueSource,
    ) -> Result<Vec<JsValue<'js>>, DecodeError> {
        match arguments {
            Arguments::Trees(trees) => {
                let decode = |(index, tree): (usize, &Value)| {
                    self.guest.decode(ctx, tree, source).map_err(|error| error.inside(&index.to_string()))
                };
                trees.iter().enumerate().map(decode).collect()
            }
            Arguments::Text(RawPayload::Input(text)) => {
                let decoded = self.guest.decode_text(ctx, text.get(), source);
                decoded.map(|argument| vec![argument]).map_err(|error| error.inside("input"))
            }
            Arguments::Text(RawPayload::Args(list)) => {
                let decoded = self.guest.decode_list(ctx, list.get(), source);
                decoded.map_err(|error| error.inside("args"))
            }
        }
    }
}

//! How JavaScript begins to run: the code of an eval, or a call of one of the script's functions.

use rquickjs::atom::PredefinedAtom;
use rquickjs::{Ctx, Function, Object, Value as JsValue};

use super::super::kept::{Kept, keep};
use super::super::raw;
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
    Waiting(Kept<AwaitedPromise>),
    /// It is over already.
    Over(Kept<Settled>),
}

impl Engine {
    /// Starts an eval.
    pub(crate) fn start_eval(
        &self,
        ctx: &Ctx<'_>,
        charged_to: ChargedTo,
        source: &EvalSource,
    ) -> Result<Started, Kept<ErrorObject>> {
        self.drop_shadows(ctx);
        if let Some(value) = self.read_data(ctx, &source.code) {
            return Ok(Started::Over(self.settled(ctx, charged_to, &value, RefHolder::Client)));
        }
        let is_binding = |name: &str| self.is_binding(name);
        let options = source::Options { fresh: source.fresh, is_binding: &is_binding };
        let prepared =
            source::prepare(&source.code, &options).map_err(|error| syntax_error(&error, &source.name))?;
        let Compiled { script, positions, awaits } = self.compile(ctx, prepared, source, &options)?;
        let map = SourceMap { name: &source.name, positions: &positions };
        let cleaned = self.clean_prototype(ctx);
        self.ignore(ctx, cleaned);
        let value = script.run(ctx).map_err(|error| self.failure(ctx, error, &map))?;
        let promise = if awaits {
            value
                .try_into_promise()
                .map_err(|_| keep(ErrorObject::new(Kind::Internal, "an eval without promise")))?
        } else if value.is_promise() {
            self.wrap(ctx, value).map_err(|error| self.failure(ctx, error, &map))?
        } else {
            return Ok(Started::Over(self.settled(ctx, charged_to, &value, RefHolder::Client)));
        };
        let promise = self.hold(ctx, promise)?;
        let (name, positions, holder) = (source.name.clone(), positions.take(), RefHolder::Client);
        Ok(Started::Waiting(keep(AwaitedPromise { charged_to, promise, name, positions, holder })))
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
    ) -> Result<Started, Kept<ErrorObject>> {
        let failed = |_| keep(ErrorObject::new(Kind::Internal, "the function is not of this session"));
        let function: Function<'_> = self.guest.roots.get(ctx, function).map_err(failed)?;
        let mut decoded = raw::Arguments::new(ctx);
        self.decode_arguments(ctx, arguments, source, &mut decoded)
            .map_err(|error| error.into_object(Kind::InvalidParams))?;
        let positions = keep(Positions::default());
        match decoded.call::<JsValue<'_>>(&function).and_then(|value| self.wrap(ctx, value)) {
            Ok(promise) => {
                let promise = self.hold(ctx, promise)?;
                let (name, positions) = (String::new(), positions.take());
                Ok(Started::Waiting(keep(AwaitedPromise { charged_to, promise, name, positions, holder })))
            }
            Err(error) => Err(self.failure(ctx, error, &SourceMap { name: "", positions: &positions })),
        }
    }

    /// Builds the arguments of a call. The path of an error counts from the parameters of the client's `invoke`, or from
    /// the list of a handler's arguments.
    fn decode_arguments<'js>(
        &self,
        ctx: &Ctx<'js>,
        arguments: &Arguments,
        source: ValueSource,
        decoded: &mut raw::Arguments<'js>,
    ) -> Result<(), DecodeError> {
        let short = |_| DecodeError::of_kind(Kind::MemoryLimit, "not enough memory in the session");
        match arguments {
            Arguments::Trees(trees) => {
                for (index, tree) in trees.iter().enumerate() {
                    let value = self.guest.decode(ctx, tree, source);
                    decoded.push(value.map_err(|error| error.inside(&index.to_string()))?).map_err(short)?;
                }
                Ok(())
            }
            Arguments::Text(RawPayload::Input(text)) => {
                let value = self.guest.decode_text(ctx, text.get(), source);
                decoded.push(value.map_err(|error| error.inside("input"))?).map_err(short)
            }
            Arguments::Text(RawPayload::Args(list)) => {
                let listed = self.guest.decode_list(ctx, list.get(), source, decoded);
                listed.map_err(|error| error.inside("args"))
            }
        }
    }
}

//! A minimal session: a context that keeps its state, the guard the transform relies on, and one binding.

use rquickjs::context::EvalOptions;
use rquickjs::{Context, Ctx, Object, Promise, Runtime, Value};

use super::super::{Options, Positions, SourceError, prepare, rescue};

const PRELUDE: &str = r#"
globalThis.__readonly = new Proxy({}, {
  get: (_, name) => globalThis[name],
  set: (_, name) => { throw new TypeError(`'${name}' is read-only`); },
});
Object.defineProperty(globalThis, "getOrder", {
  configurable: false,
  get() { return "binding"; },
  set(value) { Object.defineProperty(globalThis, "shadow", { value, configurable: true }); },
});
"#;

pub(super) struct Session {
    context: Context,
    fresh: bool,
}

pub(super) fn is_binding(name: &str) -> bool {
    name == "getOrder"
}

impl Session {
    pub(super) fn new() -> Self {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        context.with(|ctx| ctx.eval::<(), _>(PRELUDE).unwrap());
        Self { context, fresh: false }
    }

    pub(super) fn fresh() -> Self {
        Self { fresh: true, ..Self::new() }
    }

    /// The value as JSON, or the error as `Name: message`.
    pub(super) fn eval(&self, code: &str) -> String {
        self.try_eval(code).unwrap_or_else(|error| format!("SyntaxError: {error}"))
    }

    fn try_eval(&self, code: &str) -> Result<String, SourceError> {
        let options = Options { fresh: self.fresh, is_binding: &is_binding };
        let prepared = prepare(code, &options)?;
        let result = self.run(&prepared.code);
        if result.starts_with("SyntaxError")
            && let Some(rescued) = rescue(code, &options)?
        {
            return Ok(self.run(&rescued.code));
        }
        Ok(result)
    }

    /// Line and column of the first frame of the stack that is the value of a code, mapped back.
    pub(super) fn thrown_at(&self, code: &str) -> (u32, u32) {
        let options = Options { fresh: self.fresh, is_binding: &is_binding };
        let rescued = rescue(code, &options).unwrap();
        let prepared = rescued.unwrap_or_else(|| prepare(code, &options).unwrap());
        let stack = self.run(&prepared.code);
        place(&stack, &prepared.positions)
    }

    pub(super) fn run(&self, code: &str) -> String {
        self.context.with(|ctx| {
            let mut options = EvalOptions::default();
            options.global = true;
            options.strict = false;
            options.promise = true;
            let promise = match ctx.eval_with_options::<Promise, _>(code, options) {
                Ok(promise) => promise,
                Err(_) => return describe(&ctx),
            };
            match promise.finish::<Object>() {
                Ok(result) => json(&ctx, result.get("value").unwrap()),
                Err(_) => describe(&ctx),
            }
        })
    }
}

fn place(stack: &str, positions: &Positions) -> (u32, u32) {
    let first_frame = stack.split("\\n").next().unwrap();
    let mut numbers = first_frame.trim_end_matches(|c: char| !c.is_ascii_digit()).rsplit(':');
    let column = numbers.next().unwrap().parse().unwrap();
    let line = numbers.next().unwrap().parse().unwrap();
    positions.original(line, column).unwrap()
}

fn json<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> String {
    match ctx.json_stringify(value).unwrap() {
        Some(text) => text.to_string().unwrap(),
        None => "undefined".to_owned(),
    }
}

fn describe(ctx: &Ctx) -> String {
    let caught = ctx.catch();
    match caught.as_exception() {
        Some(error) => {
            let name: String = error.as_object().get("name").unwrap();
            format!("{name}: {}", error.message().unwrap_or_default())
        }
        None => json(ctx, caught),
    }
}

// EvalError
Error.prepareStackTrace = (e, frames) => { throw new Error("no"); }; throw new Error("x")

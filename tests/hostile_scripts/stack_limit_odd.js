// EvalError
Error.stackTraceLimit = { valueOf() { throw 1; } }; throw new Error("x")

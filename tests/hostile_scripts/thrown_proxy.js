// EvalError
throw new Proxy(new Error("x"), { get() { throw new Error("again"); }, getPrototypeOf() { throw 1; }, has() { throw 1; } })

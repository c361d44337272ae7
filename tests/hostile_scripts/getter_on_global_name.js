// value EvalError
Object.defineProperty(globalThis, "x1", { get() { throw new Error("no"); }, configurable: false }); 1

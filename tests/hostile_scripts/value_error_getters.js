// value Unserializable EvalError
const e = new Error("x"); Object.defineProperty(e, "message", { get() { throw 1; } }); Object.defineProperty(e, "name", { get() { throw 1; } }); e

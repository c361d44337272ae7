// value Unserializable EvalError
const e = new Error("x"); e.cause = e; e

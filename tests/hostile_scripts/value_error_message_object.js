// value Unserializable EvalError
const e = new Error("x"); e.message = { a: 1 }; e.stack = 5; e.name = Symbol("x"); e

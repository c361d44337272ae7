// EvalError
const e = new Error("x"); e.data = e; e.code = 5; throw e

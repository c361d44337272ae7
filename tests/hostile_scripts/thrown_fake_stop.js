// EvalError
const e = new Error("interrupted"); e.name = "InternalError"; throw e

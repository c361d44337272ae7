// EvalError
const e = new Error("x"); e.code = -32700; e.data = { kind: "ParseError", sessionLost: "no" }; e.name = "Timeout"; throw e

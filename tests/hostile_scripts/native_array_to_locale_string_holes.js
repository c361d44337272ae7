// EvalError Timeout
const h = []; h.length = 2 ** 32 - 1; h.toLocaleString().length

// EvalError Timeout
const h = []; h.length = 2 ** 24; h.concat(...Array(1000).fill(h)).length

// Timeout MemoryLimit EvalError value
const t = new Float64Array(1e6); for (;;) { for (let i = 0; i < 1e6; i += 1000) t[i] = Math.random(); t.sort(); }

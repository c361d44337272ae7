// Timeout MemoryLimit EvalError value
const t = new Float64Array(1e6); for (;;) { t[0] = Math.random(); t.sort((a, b) => b - a); }

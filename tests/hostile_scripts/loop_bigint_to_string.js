// Timeout MemoryLimit EvalError value
const b = (1n << 900000n) - 1n; let s = 0; for (let i = 0; i < 1000; i++) s += b.toString().length; s

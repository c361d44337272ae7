// EvalError Timeout MemoryLimit
const t = '\u0323\u0307'.repeat(1 << 18); (t + 'a').localeCompare(t + 'b')

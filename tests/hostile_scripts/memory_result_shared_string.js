// ResultTooLarge MemoryLimit Timeout EvalError lost
const s = "x".repeat(1 << 20); new Array(1e5).fill(s)

// MemoryLimit EvalError ResultTooLarge EvalError lost
let s = "x".repeat(1 << 20); s.repeat(1024)

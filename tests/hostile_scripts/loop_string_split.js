// Timeout MemoryLimit EvalError value
const s = "a".repeat(3e5); for (;;) s.split("");

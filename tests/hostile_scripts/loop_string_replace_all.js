// Timeout MemoryLimit EvalError value
const s = "a".repeat(1e6); for (;;) s.replaceAll("a", "b");

// EvalError MemoryLimit
throw new Error("x".repeat(5e6))

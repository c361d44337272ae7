// MemoryLimit EvalError EvalError lost
"x".repeat(2 ** 30 - 1)

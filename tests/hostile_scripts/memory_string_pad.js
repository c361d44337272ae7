// MemoryLimit EvalError EvalError lost
"x".padEnd(2 ** 30 - 1, "y")

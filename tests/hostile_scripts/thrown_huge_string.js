// EvalError MemoryLimit ResultTooLarge
throw "x".repeat(5e6)

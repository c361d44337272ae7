// MemoryLimit Timeout value EvalError EvalError lost
btoa("A".repeat(9e6)).length

// MemoryLimit Timeout value EvalError EvalError lost
atob("AAAA".repeat(3e6)).length

// MemoryLimit EvalError Timeout EvalError lost
1n << (2n ** 40n)

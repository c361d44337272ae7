// Timeout MemoryLimit EvalError value
BigInt("9".repeat(1000000)).toString(7).length

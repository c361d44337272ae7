// Timeout MemoryLimit EvalError value
(2n ** 4000000n).toString().length

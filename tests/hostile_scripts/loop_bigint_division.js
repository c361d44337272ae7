// Timeout MemoryLimit EvalError value
const a = 7n ** 300000n, b = 3n ** 150000n; for (;;) a % b;

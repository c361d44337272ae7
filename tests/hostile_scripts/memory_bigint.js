// MemoryLimit EvalError Timeout EvalError lost
let b = 1n; for (;;) b <<= 1000000n;

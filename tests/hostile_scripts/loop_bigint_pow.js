// Timeout MemoryLimit EvalError value
let b = 3n; for (;;) b = b * b;

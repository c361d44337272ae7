// Timeout MemoryLimit EvalError value
const a = Array.from({ length: 1e5 }, (_, i) => i); for (;;) JSON.stringify(a);

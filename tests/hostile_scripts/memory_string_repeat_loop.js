// MemoryLimit EvalError EvalError lost
const a = []; for (;;) a.push("x".repeat(1e6));

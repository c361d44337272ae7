// MemoryLimit Timeout value EvalError EvalError lost
const a = []; for (;;) a.push(new TextEncoder().encode("x".repeat(1e5)));

// MemoryLimit Timeout EvalError lost
const a = []; for (;;) a.push(new Error("x"));

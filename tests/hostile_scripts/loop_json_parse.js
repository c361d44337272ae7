// Timeout MemoryLimit EvalError value
const s = "[" + "1,".repeat(3e5) + "1]"; for (;;) JSON.parse(s);

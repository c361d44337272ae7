// MemoryLimit Timeout EvalError EvalError lost
const a = []; for (;;) { try { a.push(new Array(10000).fill(0)); } catch {} }

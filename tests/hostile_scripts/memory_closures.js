// MemoryLimit Timeout EvalError lost
const a = []; for (;;) { const x = new Array(100).fill(1); a.push(() => x); }

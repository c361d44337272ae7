// MemoryLimit Timeout EvalError lost
const m = new Map(); for (let i = 0; ; i++) m.set(i, { i });

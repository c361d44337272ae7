// MemoryLimit Timeout EvalError lost
const a = []; for (;;) a.push(new Array(1000).fill(0));

// MemoryLimit Timeout EvalError lost
const a = []; for (let i = 0; ; i++) a.push(Symbol("x".repeat(1000)));

// MemoryLimit EvalError value Timeout EvalError lost
const a = []; for (let i = 0; i < 200; i++) a.push(new SharedArrayBuffer(1 << 20)); 1

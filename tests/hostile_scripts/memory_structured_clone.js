// MemoryLimit Timeout value EvalError EvalError lost
let o = [1]; for (let i = 0; i < 25; i++) o = [o, [...o]]; structuredClone(o); 1

// StackOverflow EvalError value MemoryLimit Timeout
let a = {}; for (let i = 0; i < 200000; i++) a = { a }; structuredClone(a); 1

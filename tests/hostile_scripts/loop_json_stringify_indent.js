// Timeout MemoryLimit EvalError value ResultTooLarge
let a = []; for (let i = 0; i < 2000; i++) a = [a]; for (;;) JSON.stringify(a, null, 10);

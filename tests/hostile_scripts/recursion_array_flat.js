// StackOverflow EvalError value MemoryLimit Timeout
let a = []; for (let i = 0; i < 100000; i++) a = [a]; a.flat(Infinity).length

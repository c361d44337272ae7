// StackOverflow EvalError value MemoryLimit Timeout
let f = () => 1; for (let i = 0; i < 100000; i++) f = f.bind(null); f()

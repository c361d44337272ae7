// StackOverflow EvalError value MemoryLimit Timeout
let p = new Proxy({}, {}); for (let i = 0; i < 30000; i++) { p = new Proxy(Object.create(p), {}); } "x" in p

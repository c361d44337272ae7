// value StackOverflow EvalError MemoryLimit Timeout
let a = {}; for (let i = 0; i < 200000; i++) a = { a }; console.log(a); console.log({ get x() { console.log(this); return 1; } }); 1

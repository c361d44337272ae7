// value EvalError Unserializable MemoryLimit Timeout StackOverflow
let e = new Error("x"); for (let i = 0; i < 20000; i++) { const c = e; e = new Error("y", { cause: c }); } throw e;

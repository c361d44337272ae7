// value EvalError Unserializable
let e = new Error("x"); for (let i = 0; i < 10000; i++) e = new AggregateError([e], "y"); throw e;

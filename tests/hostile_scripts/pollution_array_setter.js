// value EvalError
Object.defineProperty(Array.prototype, "0", { set() { throw new Error("stolen"); }, get() { return "stolen"; }, configurable: true }); console.log([1, 2], { a: 1 }, "%s", 5); await echo({ a: [1, 2] })

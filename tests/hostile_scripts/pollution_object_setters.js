// value EvalError
for (const k of ["level", "text", "name", "message", "stack", "cause", "value", "0", "length", "done", "kind", "writable", "get", "set", "enumerable"]) Object.defineProperty(Object.prototype, k, { set() { throw new Error("stolen " + k); }, get() { throw new Error("read " + k); }, configurable: true }); console.log({ a: [1] }); await echo({ a: 1 })

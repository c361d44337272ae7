// value EvalError
Object.setPrototypeOf(globalThis, new Proxy({}, { has() { throw 1; }, get() { throw 1; }, getPrototypeOf() { throw 1; }, getOwnPropertyDescriptor() { throw 1; } })); 1

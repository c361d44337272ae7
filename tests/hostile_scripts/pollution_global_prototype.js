// value EvalError
Object.setPrototypeOf(globalThis, new Proxy({}, { has() { return true; }, get() { return 1; } })); 1

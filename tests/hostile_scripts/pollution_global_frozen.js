// value EvalError
Object.freeze(globalThis); Object.freeze(Object.prototype); Object.freeze(Array.prototype); 1

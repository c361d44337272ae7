// value EvalError
for (const C of [Array, Map, Set, String, RegExp, Function, Object, Promise, WeakMap]) for (const k of Reflect.ownKeys(C.prototype)) { try { if (k !== "constructor") delete C.prototype[k]; } catch {} } console.log({ a: [1], m: new Map([[1, 2]]) }); 1

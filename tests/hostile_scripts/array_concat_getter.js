// value EvalError
const a = [1, 2, 3]; Object.defineProperty(a, 0, { get() { a.length = 0; return 1; } }); [].concat(a, a)

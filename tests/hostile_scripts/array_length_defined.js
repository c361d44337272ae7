// value EvalError
const a = []; Object.defineProperty(a, "length", { writable: false, value: 0 }); try { a.push(1); } catch (e) { e.name }

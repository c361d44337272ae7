// value EvalError
const a = Array.from({ length: 1000 }, (_, i) => i); a.sort((x, y) => { a.length = 0; return y - x; }); a.length

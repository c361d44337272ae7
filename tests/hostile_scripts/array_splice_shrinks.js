// value EvalError
const a = Array.from({ length: 1000 }, (_, i) => i); a.splice(0, { valueOf() { a.length = 1; return 900; } }); a.length

// value EvalError
Array.prototype[Symbol.iterator] = function* () { for (;;) yield 1; }; console.log(1); 1

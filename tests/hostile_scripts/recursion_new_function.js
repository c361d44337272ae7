// StackOverflow EvalError SyntaxError
globalThis.f = function () { new Function("f()")(); }; f();

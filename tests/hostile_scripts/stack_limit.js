// EvalError value
Error.stackTraceLimit = 1e9; function f(n) { if (n === 0) throw new Error("x"); f(n - 1); } f(500)

// value EvalError
new Date().toLocaleString("x".repeat(1000))

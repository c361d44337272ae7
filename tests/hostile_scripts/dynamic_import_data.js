// EvalError SyntaxError
await import("data:text/javascript,1")

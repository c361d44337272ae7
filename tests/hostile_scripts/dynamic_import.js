// EvalError SyntaxError
await import("fs")

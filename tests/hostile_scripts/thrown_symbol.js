// EvalError
throw Symbol("x")

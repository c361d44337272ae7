// EvalError
throw () => 1

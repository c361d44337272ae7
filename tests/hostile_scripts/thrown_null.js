// EvalError
throw null

// EvalError
throw undefined

// EvalError
throw new Error("\ud800")

// value EvalError
await fail.panic({})

// StackOverflow EvalError MemoryLimit
function* g() { yield* g(); } g().next()

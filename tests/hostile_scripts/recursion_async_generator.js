// StackOverflow EvalError MemoryLimit Timeout
async function* g() { yield* g(); } await g().next()

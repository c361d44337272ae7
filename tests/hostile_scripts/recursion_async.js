// StackOverflow EvalError MemoryLimit Timeout
async function f() { return await f(); } await f()

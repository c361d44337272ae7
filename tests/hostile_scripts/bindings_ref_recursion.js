// EvalError TooDeep Timeout StackOverflow TooManyCalls
async function f() { return await apply({ fn: f, args: [] }); } await f()

// StackOverflow EvalError MemoryLimit value Timeout
Function.prototype.apply.apply(Function.prototype.apply, [Function.prototype.apply, [null, { length: 1e9 }]])

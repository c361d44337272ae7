// Timeout MemoryLimit EvalError value
Array.prototype.copyWithin.call({ length: Number.MAX_SAFE_INTEGER }, 1, 0)

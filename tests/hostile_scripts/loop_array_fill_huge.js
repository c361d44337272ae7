// Timeout MemoryLimit EvalError value
Array.prototype.fill.call({ length: Number.MAX_SAFE_INTEGER }, 1)

// Timeout MemoryLimit EvalError value
Array.prototype.lastIndexOf.call({ length: Number.MAX_SAFE_INTEGER }, 1)

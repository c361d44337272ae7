// Timeout MemoryLimit EvalError value
Array.prototype.includes.call({ length: Number.MAX_SAFE_INTEGER }, 1)

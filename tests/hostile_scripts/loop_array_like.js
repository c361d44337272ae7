// Timeout MemoryLimit EvalError
Array.prototype.forEach.call({ length: Number.MAX_SAFE_INTEGER }, () => {})

// Timeout MemoryLimit EvalError value
Array.prototype.reverse.call({ length: Number.MAX_SAFE_INTEGER })

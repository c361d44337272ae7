// Timeout MemoryLimit EvalError value
Array.prototype.flat.call({ length: 2 ** 50 })

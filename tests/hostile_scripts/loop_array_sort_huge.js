// Timeout MemoryLimit EvalError value
Array.prototype.sort.call({ length: 2 ** 50 })

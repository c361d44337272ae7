// Timeout MemoryLimit EvalError value
Array.prototype.every.call({ length: 2 ** 50 }, () => true)

// Timeout MemoryLimit EvalError value
Array.prototype.unshift.call({ length: 2 ** 50 }, 1)

// Timeout MemoryLimit EvalError value
Array.prototype.splice.call({ length: 2 ** 40 }, 0, 0, 1)

// Timeout MemoryLimit EvalError value
Array.prototype.shift.call({ length: 2 ** 50 })

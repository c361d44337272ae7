// Timeout MemoryLimit EvalError value
Array.prototype.toReversed.call({ length: 4294967295 })

// Timeout MemoryLimit EvalError
Iterator.from({ next() { return { done: false, value: 1 }; } }).filter(() => false).toArray()

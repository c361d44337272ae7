// Timeout MemoryLimit EvalError
Array.from({ [Symbol.iterator]() { return { next() { return { done: false, value: 1 }; } }; } })

// StackOverflow EvalError MemoryLimit value Timeout
Math.max(...new Array(1000000).fill(1))

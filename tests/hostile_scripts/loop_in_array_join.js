// Timeout MemoryLimit EvalError value
const a = []; a.length = 4294967295; a.join("")

// MemoryLimit EvalError value EvalError lost
new Array(4294967295).fill(0)

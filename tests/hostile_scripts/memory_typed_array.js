// MemoryLimit EvalError EvalError lost
new Uint8Array(2 ** 31 - 1)

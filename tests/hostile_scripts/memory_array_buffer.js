// MemoryLimit EvalError EvalError lost
new ArrayBuffer(2 ** 40)

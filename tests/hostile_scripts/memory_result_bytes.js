// ResultTooLarge MemoryLimit EvalError value EvalError lost
new Uint8Array(8 << 20)

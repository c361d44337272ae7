// ResultTooLarge MemoryLimit Timeout value EvalError lost
const a = []; a[4294967294] = 1; a

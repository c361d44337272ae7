// value EvalError MemoryLimit Timeout EvalError lost
console.table(Array.from({ length: 2000 }, (_, i) => ({ ["k" + i]: i }))); 1

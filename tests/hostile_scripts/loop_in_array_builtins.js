// Timeout MemoryLimit EvalError
const a = []; a.length = 4294967295; for (;;) { a.indexOf(1); }

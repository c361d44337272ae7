// MemoryLimit EvalError EvalError lost
let s = "x"; for (;;) s += s;

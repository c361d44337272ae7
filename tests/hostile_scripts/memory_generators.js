// MemoryLimit Timeout EvalError lost
const a = []; for (;;) { const g = (function* () { const x = new Array(50).fill(0); yield x; })(); g.next(); a.push(g); }

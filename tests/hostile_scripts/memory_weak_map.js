// MemoryLimit Timeout EvalError lost
const m = new WeakMap(), k = []; for (;;) { const o = {}; k.push(o); m.set(o, new Array(100)); }

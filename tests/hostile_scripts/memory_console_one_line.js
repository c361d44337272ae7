// value EvalError MemoryLimit Timeout EvalError lost
console.log("x".repeat(1 << 22)); console.log(new Array(1e6).fill({ a: 1 })); console.log(Object.fromEntries(Array.from({ length: 1e4 }, (_, i) => [i, i]))); 1

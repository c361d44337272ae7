// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); const u = new Int32Array(b); Atomics.store(u, 200, { valueOf() { b.resize(8); return 1; } })

// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); const u = new Uint8Array(b); u.set({ length: 900, get 5() { b.resize(1); return 1; } }); u.length

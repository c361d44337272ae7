// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); const u = new Uint8Array(b); u.with(900, { valueOf() { b.resize(10); return 1; } })

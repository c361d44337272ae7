// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); const u = new Uint8Array(b); u.slice(0, { valueOf() { b.resize(1); return 900; } }).length

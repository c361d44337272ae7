// value Unserializable EvalError
const b = new ArrayBuffer(8, { maxByteLength: 1 << 20 }); const u = new Uint8Array(b); [u, { get a() { b.resize(1 << 20); return 1; } }, u].length

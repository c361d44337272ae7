// value Unserializable EvalError
const b = new ArrayBuffer(1 << 20, { maxByteLength: 1 << 20 }); const u = new Uint8Array(b); [u, { get a() { b.resize(0); return 1; } }, u, new Uint8Array(b), b]

// value Unserializable EvalError
const b = new ArrayBuffer(100, { maxByteLength: 1000 }); const u = new Uint8Array(b, 50, 40); const d = new DataView(b, 50, 40); [{ get a() { b.resize(10); return 1; } }, u, d]

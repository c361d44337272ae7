// value Unserializable EvalError
const b = new ArrayBuffer(1 << 20); const u = new Uint8Array(b); [u, { get a() { b.transfer(); return 1; } }, u, b]

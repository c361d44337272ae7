// value Unserializable EvalError
const b = new ArrayBuffer(1 << 20); const u = new Uint8Array(b); const moved = b.transfer(10); [b, u, moved]

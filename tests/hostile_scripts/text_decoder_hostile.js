// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); const u = new Uint8Array(b, 500); b.resize(10); [new TextDecoder().decode(u), new TextEncoder().encodeInto("\ud800".repeat(100), new Uint8Array(3)), new TextDecoder("utf-16le").decode(new Uint8Array(3))]

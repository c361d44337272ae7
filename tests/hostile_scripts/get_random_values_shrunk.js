// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); const u = new Uint8Array(b, 100, 500); b.resize(200); crypto.getRandomValues(u).length

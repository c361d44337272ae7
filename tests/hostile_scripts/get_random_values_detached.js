// value EvalError
const b = new ArrayBuffer(1000); const u = new Uint8Array(b); b.transfer(); crypto.getRandomValues(u).length

// value EvalError
const b = new ArrayBuffer(1000); const u = new Uint8Array(b); u.fill({ valueOf() { b.transfer(); return 1; } }); u.length

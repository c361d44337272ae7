// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); const u = new Uint8Array(b); let n = 0; u.sort((x, y) => { if (n++ === 10) b.resize(0); return y - x; }); u.length

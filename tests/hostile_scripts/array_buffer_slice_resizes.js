// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); b.slice(0, { valueOf() { b.resize(1); return 900; } }).byteLength

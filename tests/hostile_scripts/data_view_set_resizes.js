// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); new DataView(b).setFloat64(900, { valueOf() { b.resize(10); return 1; } })

// value EvalError
const b = new ArrayBuffer(1000, { maxByteLength: 2000 }); const u = new Uint8Array(b); [u.indexOf(0, { valueOf() { b.resize(10); return 0; } }), u.includes(undefined, { valueOf() { b.resize(0); return 0; } }), u.join({ toString() { b.resize(5); return ","; } })]

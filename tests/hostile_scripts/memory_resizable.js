// MemoryLimit EvalError value EvalError lost
const b = new ArrayBuffer(1, { maxByteLength: 2 ** 33 }); b.resize(2 ** 32); 1

// value Unserializable EvalError
new Uint8Array(new SharedArrayBuffer(16))

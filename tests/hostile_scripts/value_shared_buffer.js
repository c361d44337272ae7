// value Unserializable EvalError
new SharedArrayBuffer(16)

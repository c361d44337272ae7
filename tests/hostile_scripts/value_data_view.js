// value Unserializable EvalError
new DataView(new ArrayBuffer(8), 2, 4)

// value Unserializable EvalError
typeof Float16Array === "function" ? new Float16Array([1, 2]) : 1

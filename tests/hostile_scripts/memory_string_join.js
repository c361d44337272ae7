// MemoryLimit EvalError Timeout
new Array(2 ** 29).join("xx")

// MemoryLimit EvalError Timeout value EvalError lost
String.raw({ raw: { length: 1e7 } }, "x").length

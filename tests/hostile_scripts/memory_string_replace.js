// MemoryLimit EvalError Timeout EvalError lost
"x".repeat(10000).replace(/x/g, "$`$'".repeat(100))

// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("1?".repeat(50000) + "1" + ":1".repeat(50000))

// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("1" + "+1".repeat(200000))

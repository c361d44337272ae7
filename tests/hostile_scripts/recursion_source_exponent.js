// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("1" + "**1".repeat(100000)); 1

// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("a=>".repeat(30000) + "1"); 1

// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("a=>" + "a?.".repeat(100000) + "b"); 1

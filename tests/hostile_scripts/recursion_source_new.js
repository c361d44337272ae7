// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("new ".repeat(100000) + "Object"); 1
